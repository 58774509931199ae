import type { Decision } from '../decision.ts';
import { TollgateClosedError } from '../errors.ts';
import { statusOf } from './problem.ts';

/** A refused request, as error handlers see it. Its headers are set already. */
export class TollgateRefusal extends Error {
  override readonly name = 'TollgateRefusal';
  readonly code = 'TOLLGATE_REFUSED';
  readonly statusCode: number;
  /** The same as `statusCode`, for Express's handlers. */
  readonly status: number;
  readonly decision: Decision;

  constructor(decision: Decision) {
    // A refusal is an answer, not a fault: a stack would cost more than all the rest of it.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(`The request was refused: ${decision.reason}.`);
    Error.stackTraceLimit = stackTraceLimit;
    this.decision = decision;
    this.statusCode = statusOf(decision.reason);
    this.status = this.statusCode;
  }
}

/** A request that came to a gate, or waited there, when it was closed: its server is about to stop. */
export class TollgateClosedGateError extends TollgateClosedError {
  readonly statusCode = 503;
  /** The same as `statusCode`, for Express's handlers. */
  readonly status = 503;

  constructor() {
    super('The gate is closed, so that no limit can be asked; the server is about to stop.');
  }
}

/** A function of the options that threw, took too long or returned nonsense. The request was not let through. */
export class TollgateFunctionError extends Error {
  override readonly name = 'TollgateFunctionError';
  readonly code = 'TOLLGATE_FUNCTION';
  readonly statusCode = 500;

  /** @param option names the function, such as `the by of login`. */
  constructor(option: string, problem: string, cause?: unknown) {
    super(`${option} ${problem}`, cause === undefined ? undefined : { cause });
  }
}
