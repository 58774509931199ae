import type { IncomingMessage } from 'node:http';
import type { Logger } from '@tollgate/core';
import { type Answer, problem } from './answer.ts';
import type { DashboardOptions } from './options.ts';

/** Whoever `authorize` said yes to; `undefined` where it gave no name. */
export interface Operator {
  readonly name: string | undefined;
}

/** How often it is told that `authorize` does not work, since anybody may make it fail again. */
const TOLD_EVERY_MS = 10_000;

/** Asks `authorize` who requests are from. */
export class Door<R> {
  private readonly authorize: DashboardOptions<R>['authorize'];
  private readonly logger: Logger;
  private toldAtMs = -Infinity;

  constructor(authorize: DashboardOptions<R>['authorize'], logger: Logger) {
    this.authorize = authorize;
    this.logger = logger;
  }

  /** Undefined refuses, whatever went wrong. */
  async operatorOf(request: R): Promise<Operator | undefined> {
    let said: unknown;
    try {
      said = await this.authorize(request);
    } catch (error) {
      this.tell({ err: error }, 'authorize of the dashboard failed, so the request is refused');
      return undefined;
    }
    if (said === true) return { name: undefined };
    if (typeof said === 'string' && said !== '') return { name: said };
    if (typeof said === 'object' && said !== null) {
      this.tell(
        {},
        'authorize of the dashboard returned an object, so the request is refused; return true, or a name as a text',
      );
    }
    return undefined;
  }

  private tell(details: object, message: string): void {
    const now = performance.now();
    if (now - this.toldAtMs < TOLD_EVERY_MS) return;
    this.toldAtMs = now;
    this.logger.error(details, message);
  }
}

/** Says why a request may not have come from the page itself; undefined when it did. */
export function refuseForeign(
  { headers }: IncomingMessage,
  ownOrigin: string | undefined,
): Answer | undefined {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') {
    return problem(403, `This came from another site (Sec-Fetch-Site: ${String(site)}).`);
  }
  const { origin } = headers;
  // HTTP/2 has another name for it.
  const host = String(headers.host ?? headers[':authority'] ?? '');
  if (origin === undefined) return problem(403, 'There is no Origin header.');
  if (ownOrigin === undefined ? hostOf(origin) === host.toLowerCase() : origin === ownOrigin) {
    return undefined;
  }
  return problem(
    403,
    `The Origin header does not name ${ownOrigin ?? 'the host that the request went to'}. Behind a proxy that changes Host, give the dashboard its origin.`,
  );
}

/** The host that an origin names, as in a Host header; undefined for `null` and what is none. */
function hostOf(origin: string): string | undefined {
  return /^https?:\/\//.test(origin) && URL.canParse(origin) ? new URL(origin).host : undefined;
}
