/** A command line that cannot work, as told to whoever typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const HELP: string = `Usage:
  tollgate replay <access log>... --limits <file> [options]
  tollgate keys peek <key> --redis <url> --limits <file> [options]
  tollgate keys reset <key> --redis <url> (--limits <file> | --limit <name>) [options]
  tollgate schema

replay: what limits would have done to the requests of access logs (common or combined format,
or JSON lines of pino, Fastify, morgan or nginx; plain or gzip; - is standard input)
  --limits <file>   the limits, as JSON; tollgate schema prints its form
  --compare         try each limit as every algorithm too
  --top <n>         refused keys to show per limit, default 10, at most 1000
  --reorder <n>     requests among which lines out of order are sorted, default 10000
  --html <file>     also write a report with plots
  --json            print the report as JSON

keys: what a limiter holds of a key in Redis
  peek              what the next request of the key would be told; nothing is charged
  reset             forget what the key owes
  --redis <url>     such as redis://127.0.0.1:6379; ioredis must be installed
  --limits <file>   the limits, as JSON
  --limit <name>    this limit only
  --prefix <text>   what the store's keys begin with, default tollgate:
  --json            print JSON

schema: the form of a limits file as JSON Schema

Exit code: 0, or 2 when a command line, a limits file or a log cannot be used, or 1 when Redis cannot be asked.
`;
