import type { Decision, Logger } from '@tollgate/core';
import type { Call } from './call.ts';
import { type BodyObserver, observed, withBody } from './observed.ts';

/** What a request cost after all: a number, or one by limit name. What is undefined is not known. */
export type Usage = number | Readonly<Record<string, number | undefined>> | undefined;

/** Works out what an answered request cost. It gets a copy of the response and may read its body. */
export type Settle = (response: Response, request: Request) => Usage | Promise<Usage>;

/** The end of a body waits for its settlement so long at most, so that a caller never hangs on it. */
const LONGEST_SETTLEMENT_MS = 1_000;

/** Settles charges for what requests cost after all. What cannot be worked out stays as it was reserved. */
export class Settlements {
  private readonly settle: Settle | undefined;
  private readonly logger: Logger;
  private warned = false;

  constructor(settle: Settle | undefined, logger: Logger) {
    this.settle = settle;
    this.logger = logger;
  }

  /** Whether anything is to be worked out. */
  get wanted(): boolean {
    return this.settle !== undefined;
  }

  /** Settles a request whose response has been read. Never rejects. */
  async now(decision: Decision | undefined, response: Response, call: Call): Promise<void> {
    if (decision === undefined || this.settle === undefined) return;
    try {
      const usage = wholeUnits(await this.settle(response, call.request()));
      if (usage !== undefined) await decision.settle(usage);
      else this.warnOnce(call);
    } catch (error) {
      this.logger.warn(
        { err: error, method: call.method, origin: call.url.origin },
        'settle failed, so what was reserved stays charged',
      );
    }
  }

  /**
   * The response for the caller. As they read it a copy is fed to `settle`; once it is over, its slots are freed. Who
   * cancels the body ends the copy too: of a stream, what came until then counts.
   */
  async onReading(
    decision: Decision | undefined,
    response: Response,
    call: Call,
  ): Promise<Response> {
    if (response.body === null) {
      await this.now(decision, withBody(response, null), call);
      await decision?.release();
      return response;
    }
    let feed: ReadableStreamDefaultController<Uint8Array> | undefined;
    const copied = new ReadableStream<Uint8Array>({
      start: (controller) => void (feed = controller),
      cancel: () => void (feed = undefined),
    });
    const settled = this.now(decision, withBody(response, copied), call).finally(() => {
      // Nobody reads the copy any more.
      feed = undefined;
    });
    const observer: BodyObserver = {
      chunk: (bytes) => feed?.enqueue(new Uint8Array(bytes)),
      end: async () => {
        feed?.close();
        feed = undefined;
        await within(LONGEST_SETTLEMENT_MS, settled);
        await decision?.release();
      },
    };
    return observed(response, observer);
  }

  private warnOnce({ method, url }: Call): void {
    if (this.warned) return;
    this.warned = true;
    this.logger.warn(
      { method, origin: url.origin },
      'settle returned no usage, so what was reserved stays charged; said once',
    );
  }
}

/** Units are whole: a part of one counts as one. What is no number is left to the decision, which refuses it. */
function wholeUnits(usage: Usage): number | Record<string, number> | undefined {
  if (usage === undefined || usage === null) return undefined;
  if (typeof usage !== 'object') return whole(usage);
  const known = Object.entries(usage).flatMap(([name, units]) =>
    units === undefined ? [] : [[name, whole(units)] as const],
  );
  return known.length === 0 ? undefined : Object.fromEntries(known);
}

function whole(units: number): number {
  return typeof units === 'number' ? Math.ceil(units) : units;
}

async function within(ms: number, done: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const expired = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([done, expired]);
  clearTimeout(timer);
}
