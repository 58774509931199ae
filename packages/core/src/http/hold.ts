import type { ServerResponse } from 'node:http';
import type { Decision } from '../decision.ts';

/** Holds an admitted request until a leaky bucket lets it leave. A client that goes away gives its place back. */
export function hold(
  decision: Decision | undefined,
  response: ServerResponse,
): Promise<Decision | undefined | 'gone'> {
  return new Promise((resolve) => {
    const leave = (): void => {
      clearTimeout(timer);
      void decision?.cancel();
      resolve('gone');
    };
    const serve = (): void => {
      response.off('close', leave);
      resolve(decision);
    };
    // A timer may fire up to a millisecond early.
    const timer = setTimeout(serve, Math.ceil(decision?.delayMs ?? 0) + 1);
    response.once('close', leave);
  });
}
