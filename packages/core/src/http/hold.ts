import type { ServerResponse } from 'node:http';
import type { Decision } from '../decision.ts';
import type { Verdict } from '../verdict.ts';
import { whenOver } from './leaving.ts';

/** Admitted requests that a leaky bucket holds back until it is their time to leave: a bounded number, and not for ever. */
export class Holds {
  private readonly mostHeld: number;
  private readonly longestMs: number;
  private held = 0;

  constructor(mostHeld: number, longestMs: number) {
    this.mostHeld = mostHeld;
    this.longestMs = longestMs;
  }

  /** What a decision says whose request cannot be held; undefined when it can. Its charges are given back. */
  refuse(decision: Decision): Decision | undefined {
    const { delayMs } = decision;
    const tooLate = delayMs > this.longestMs;
    if (delayMs === 0 || (!tooLate && this.held < this.mostHeld)) return undefined;
    void decision.cancel();
    const reason = tooLate ? 'limited' : 'overloaded';
    // Once so much has drained, the delay is bearable. What drains is not what the crowd is about.
    const retryAfterMs = tooLate ? delayMs - this.longestMs : Math.min(delayMs, this.longestMs);
    return decision.undone(({ policy, shadow }): Partial<Verdict> =>
      policy.algorithm === 'leaky-bucket' && !shadow
        ? { allowed: false, reason, retryAfterMs }
        : {},
    );
  }

  /** Holds a request until it may leave. A client that goes away gives its place back. */
  hold(decision: Decision, response: ServerResponse): Promise<Decision | 'gone'> {
    this.held++;
    return new Promise((resolve) => {
      const leave = (): void => {
        clearTimeout(timer);
        this.held--;
        void decision.cancel();
        resolve('gone');
      };
      const serve = (): void => {
        stay();
        this.held--;
        resolve(decision);
      };
      // A timer may fire up to a millisecond early.
      const timer = setTimeout(serve, Math.ceil(decision.delayMs) + 1);
      const stay = whenOver(response, leave);
    });
  }
}
