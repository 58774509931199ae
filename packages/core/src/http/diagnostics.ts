import type { Logger } from '../logger.ts';
import type { HttpRequest } from './request.ts';

const MESSAGES = {
  TOLLGATE_NO_LIMIT:
    'no limit applied to a request: every key was undefined. If that is not meant, give a key that always answers, such as clientIp(), or firstOf(…, clientIp())',
  TOLLGATE_FREE_KEYS:
    'every limit is keyed by a value that the caller may choose freely, so a new value is a new budget; add a limit by clientIp()',
  TOLLGATE_UNTRUSTED_PROXY:
    "a request carries X-Forwarded-For, but whoever sent it is not trusted, so all clients behind a proxy would share its address. If there is a proxy, trust its address: trustProxy in Fastify, app.set('trust proxy', …) in Express",
  TOLLGATE_TRUSTS_EVERYBODY:
    'every proxy is trusted, so any caller can forge its address in X-Forwarded-For; trust the addresses of the proxies in front',
} as const;

type Code = keyof typeof MESSAGES;

const FAULT_EVERY_MS = 1_000;
const FORWARDED = 'x-forwarded-for';

/** What a gate tells its operator: mistakes that only traffic shows, each once. */
export class Diagnostics<R extends HttpRequest> {
  private readonly logger: Logger;
  private readonly proxyTrust: (request: R) => 'none' | 'some' | 'all';
  private readonly told = new Set<Code>();
  private readonly faults = new Map<string, number>();
  private sawForwarded = false;

  constructor(logger: Logger, proxyTrust: (request: R) => 'none' | 'some' | 'all') {
    this.logger = logger;
    this.proxyTrust = proxyTrust;
  }

  tell(code: Code): void {
    if (this.told.has(code)) return;
    this.told.add(code);
    this.logger.warn({ code }, MESSAGES[code]);
  }

  /** Looks at the first request that came through a proxy, or says so. */
  look(request: R, rawHeaders: readonly string[]): void {
    if (this.sawForwarded || !isForwarded(rawHeaders)) return;
    this.sawForwarded = true;
    const trust = this.proxyTrust(request);
    if (trust === 'none') this.tell('TOLLGATE_UNTRUSTED_PROXY');
    if (trust === 'all') this.tell('TOLLGATE_TRUSTS_EVERYBODY');
  }

  /** Looks at a request that did not come through the framework, and so by the address of its socket. */
  lookAtRaw({ headers }: R): void {
    if (headers[FORWARDED] !== undefined) this.tell('TOLLGATE_UNTRUSTED_PROXY');
  }

  /** Logs why a request could not be decided, for each limit at most once a second, and returns the error. */
  fault(error: unknown, limit: string): unknown {
    const now = performance.now();
    if (now - (this.faults.get(limit) ?? -Infinity) >= FAULT_EVERY_MS) {
      this.faults.set(limit, now);
      this.logger.error({ err: error, limit }, 'a request could not be decided');
    }
    return error;
  }
}

/**
 * Whether a request has come through a proxy that says so. Node makes an object of headers when it is first asked for,
 * which takes longer than a look through them as they came.
 */
function isForwarded(rawHeaders: readonly string[]): boolean {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === FORWARDED.length && name.toLowerCase() === FORWARDED) return true;
  }
  return false;
}
