/** A command line that cannot work, as told to whoever typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const CODES = `Exit code: 0; 1 when Redis cannot be asked; 2 when a command line, a limits file or a log cannot be used.
`;

export const HELP: string = `Usage:
  tollgate replay <access log>... --limits <file> [options]   what limits would have done to yesterday's traffic
  tollgate keys top [options]                                 the keys that a fleet refuses most
  tollgate keys peek|reset|ban|unban <key> [options]          what is kept of a key in Redis
  tollgate schema                                             the form of a limits file, as JSON Schema
  tollgate replay --help, tollgate keys --help                their options

${CODES}`;

const REPLAY = `Usage: tollgate replay <access log>... --limits <file> [options]

What limits would have done to the requests of access logs: common or combined format, or JSON lines
of pino, Fastify, morgan or nginx; plain or gzip; - is standard input.

  --limits <file>   the limits, as JSON; tollgate schema prints its form
  --compare         try each limit as every algorithm too
  --top <n>         refused keys to show per limit, default 10, at most 1000
  --reorder <n>     requests among which lines out of order are sorted, default 10000
  --html <file>     also write a report with plots
  --json            print the report as JSON

${CODES}`;

const KEYS = `Usage:
  tollgate keys top   [--limit <name>]... [--count <n>] [--hours <n>]
  tollgate keys peek  <key> --limits <file> [--limit <name>]...
  tollgate keys reset <key> (--limits <file> | --limit <name>...)
  tollgate keys ban   <key> --limit <name>... --for <time>
  tollgate keys unban <key> --limit <name>...

  top               the keys refused most, by all processes: how often (+n? where it may be n more),
                    how often a minute, and when first and last; a process tells every five seconds
  peek              what the next request of the key would be told; nothing is charged
  reset             forget what the key owes, and its bans
  ban               refuse the key for some time, such as 90s, 1h or 30d; in place of a ban before
  unban             end the key's ban

A key is written as tollgate keys top shows it; - is read from standard input.
  --as <kind>       make the key of what a caller sends: api-key, bearer, secret, tenant, field
  --limits <file>   the limits, as JSON; addresses are written as clientIp() does where a limit is by them
  --limit <name>    this limit only; may be given several times
  --count <n>       keys to show per limit, default 20, at most 200
  --hours <n>       how far to look back, default 24, at most that
  --yes, -y         do not ask before something is changed; only a terminal is asked
  --json            print JSON

Where Redis is; ioredis must be installed:
  --redis <url>     such as redis://127.0.0.1:6379; default the variable TOLLGATE_REDIS, which keeps a
                    password out of the list of processes
  --prefix <text>   what the store's keys begin with, default tollgate:
  --cluster         it is a Redis Cluster, and this one of its nodes
  --hash-tag <text> what the store's hashTag returns for the key, where it has one

${CODES}`;

const SCHEMA = `Usage: tollgate schema

Prints the form of a limits file as JSON Schema.
`;

/** What is said of a command that is asked for help. */
export function helpOf(command: string): string {
  return { replay: REPLAY, keys: KEYS, schema: SCHEMA }[command] ?? HELP;
}
