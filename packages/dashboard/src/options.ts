import type { IncomingMessage } from 'node:http';
import { type Logger, type MaybePromise, TollgateConfigError } from '@tollgate/core';
import type { AuditEvent } from './audit.ts';

export interface DashboardOptions<R = IncomingMessage> {
  /**
   * Says who may see and do everything here: true, or the name of whoever it is, for the audit. Anything else refuses
   * with 403, and so do an error and a rejection. Asked for every request, be it for the page, its data or an action.
   * In Fastify it is given Fastify's request, elsewhere the one that the handler is given.
   */
  readonly authorize: (request: R) => MaybePromise<boolean | string | null | undefined>;
  /**
   * Where the page is seen by browsers, such as `"https://ops.example.com"`, behind a proxy that changes the `Host`
   * header. Default: the host that the request names.
   */
  readonly origin?: string;
  /** Told of every reset, ban and unban that was asked for here. Default: a line in the log. */
  readonly onAudit?: (event: AuditEvent) => void;
  /** Default the console. */
  readonly logger?: Logger;
}

const OPTIONS = ['authorize', 'origin', 'onAudit', 'logger'];

/** @throws TollgateConfigError with the path of the option at fault and the mend. */
export function checkOptions<R>(options: DashboardOptions<R>): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', 'expected options; give dashboard(gate, { authorize })');
  }
  for (const option of Object.keys(options)) {
    if (OPTIONS.includes(option)) continue;
    throw new TollgateConfigError(option, `unknown option; there are ${OPTIONS.join(', ')}`);
  }
  const { authorize, origin, onAudit } = options as Partial<DashboardOptions<R>>;
  if (typeof authorize !== 'function') {
    throw new TollgateConfigError(
      'authorize',
      'missing; give a function of the request that returns true, or a name, for those who may see keys, reset and ban them',
    );
  }
  if (onAudit !== undefined && typeof onAudit !== 'function') {
    throw new TollgateConfigError('onAudit', 'expected a function');
  }
  if (origin === undefined) return;
  const isOrigin = URL.canParse(origin) && new URL(origin).origin === origin;
  if (isOrigin && /^https?:/.test(origin)) return;
  throw new TollgateConfigError(
    'origin',
    `expected a scheme and a host, such as "https://ops.example.com", got ${JSON.stringify(origin)}`,
  );
}
