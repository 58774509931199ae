import type { BodyInput } from './body.ts';

/** How a body ended: read to its end, or left before. */
export type BodyEnd = 'read' | 'left';

/** What is told of a body as it is read. */
export interface BodyObserver {
  /** A part that the reader gets, to be copied where it is kept. */
  chunk(bytes: Uint8Array): void;
  /** Called once. The reader is told of the end when the promise is settled. */
  end(how: BodyEnd): Promise<void>;
}

/**
 * The same response, with somebody watching as its body is read. Nothing is read ahead, and who cancels the body cancels
 * the original.
 */
export function observed(response: Response, observer: BodyObserver): Response {
  if (response.body === null) return response;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const body = new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      try {
        const { done, value } = await nextPart(reader);
        if (!done) {
          observer.chunk(value);
          // A stream of bytes takes the memory over, which may be part of a pool.
          return controller.enqueue(new Uint8Array(value));
        }
      } catch (error) {
        await observer.end('left');
        throw error;
      }
      await observer.end('read');
      controller.close();
      controller.byobRequest?.respond(0);
    },
    async cancel(reason) {
      await Promise.all([reader.cancel(reason), observer.end('left')]);
    },
  });
  return withBody(response, body);
}

/** The next part of a body that is not empty: a stream of bytes cannot pass on nothing. */
async function nextPart(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReturnType<typeof reader.read> {
  for (;;) {
    const part = await reader.read();
    if (part.done || part.value.byteLength > 0) return part;
  }
}

/** The same response with another body. What `new Response` cannot be told is copied on top. */
export function withBody(response: Response, body: BodyInput | null): Response {
  const { status, statusText, headers } = response;
  return dressed(new Response(body, { status, statusText, headers }), response);
}

function dressed(copy: Response, original: Response): Response {
  const { url, redirected, type } = original;
  return Object.defineProperties(copy, {
    url: { value: url },
    redirected: { value: redirected },
    type: { value: type },
    clone: { value: () => dressed(Response.prototype.clone.call(copy), original) },
  });
}
