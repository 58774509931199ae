import type { Logger } from '@tollgate/core';

/** What an operator did to a key, or tried to. */
export interface AuditEvent {
  readonly action: 'reset' | 'ban' | 'unban';
  readonly limit: string;
  /** As the gate's `logKeys` shows it; undefined where that shows none. */
  readonly key: string | undefined;
  /** What `authorize` returned: a name, or undefined where that was `true`. */
  readonly by: string | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** How long a ban lasts, in milliseconds. */
  readonly forMs?: number;
  /** Why it failed; it may have been carried out nevertheless. */
  readonly error?: unknown;
}

/** Tells `onAudit`, else the log. */
export function auditor(
  onAudit: ((event: AuditEvent) => void) | undefined,
  logger: Logger,
): (event: AuditEvent) => void {
  return (event) => {
    if (onAudit === undefined) return logger.warn(event, `${event.action} by an operator`);
    const report = (error: unknown): void => logger.error({ err: error, event }, 'onAudit failed');
    try {
      const told: unknown = onAudit(event);
      if (told instanceof Promise) told.catch(report);
    } catch (error) {
      report(error);
    }
  };
}
