import type { Logger } from '@tollgate/core';

export const silent: Logger = { warn: () => undefined, error: () => undefined };

export interface Line {
  readonly level: 'warn' | 'error';
  readonly details: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A logger that keeps what it is told. */
export class Log implements Logger {
  readonly lines: Line[] = [];

  warn(details: object, message: string): void {
    this.lines.push({ level: 'warn', details: { ...details }, message });
  }

  error(details: object, message: string): void {
    this.lines.push({ level: 'error', details: { ...details }, message });
  }

  /** The codes of the diagnostics so far, in order. */
  get codes(): unknown[] {
    return this.lines.map(({ details }) => details['code']).filter((code) => code !== undefined);
  }

  /** The limits named beside errors, in order. */
  get faulty(): unknown[] {
    return this.lines
      .filter(({ level }) => level === 'error')
      .map(({ details }) => details['limit']);
  }
}
