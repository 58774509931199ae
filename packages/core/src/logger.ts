/** Where diagnostics go: pino's calling convention, which Fastify's `log` follows too. */
export interface Logger {
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
}

export const consoleLogger: Logger = {
  warn: (details, message) => console.warn(`tollgate: ${message}`, details),
  error: (details, message) => console.error(`tollgate: ${message}`, details),
};
