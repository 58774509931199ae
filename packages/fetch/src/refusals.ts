import { withBody } from './observed.ts';

/** Of a refusal's body so much is kept in memory. */
const MOST_BYTES = 65_536;

/**
 * A refusal that is set aside while its retry is under way. Its body is read meanwhile, so that its connection serves
 * others; a long one is left unread beyond its first part.
 */
export class SetAside {
  private readonly response: Response;
  private readonly reading: Promise<void>;
  private readonly parts: Uint8Array[] = [];
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private ended = false;

  constructor(response: Response) {
    this.response = response;
    this.reading = this.read().catch((error: unknown) => {
      // Whoever reads the body after all is told.
      this.failure = { error };
    });
  }

  private failure: { error: unknown } | undefined;

  /** The refusal, to be read from its beginning. */
  async back(): Promise<Response> {
    await this.reading;
    return this.reader === undefined ? this.response : withBody(this.response, this.body());
  }

  /** A copy of what is kept of it; undefined where that is not all. */
  async copy(): Promise<Response | undefined> {
    await this.reading;
    if (this.reader === undefined) return withBody(this.response, null);
    return this.ended ? withBody(this.response, new Blob(this.parts)) : undefined;
  }

  /** Forgets it. */
  async drop(): Promise<void> {
    // A reading that failed has nothing left to cancel.
    await this.reader?.cancel().catch(() => undefined);
  }

  private async read(): Promise<void> {
    if (this.response.body === null) return;
    this.reader = (this.response.body as ReadableStream<Uint8Array>).getReader();
    for (let bytes = 0; bytes < MOST_BYTES;) {
      const { done, value } = await this.reader.read();
      if (done) {
        this.ended = true;
        return;
      }
      this.parts.push(value);
      bytes += value.byteLength;
    }
  }

  private body(): ReadableStream<Uint8Array> {
    const { parts, reader, failure } = this;
    return new ReadableStream({
      async pull(controller) {
        const kept = parts.shift();
        if (kept !== undefined) return controller.enqueue(kept);
        if (failure !== undefined) throw failure.error;
        const next = await reader?.read();
        if (next === undefined || next.done) controller.close();
        else controller.enqueue(next.value);
      },
      async cancel(reason) {
        await reader?.cancel(reason);
      },
    });
  }
}
