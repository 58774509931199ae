import { bodyOf } from './body.ts';

export type FetchInput = Parameters<typeof globalThis.fetch>[0];

/** Methods of which a second request does no more than the first (RFC 9110, 9.2.2). */
const IDEMPOTENT: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'OPTIONS',
  'TRACE',
  'PUT',
  'DELETE',
]);

/** A call of `fetch`, which may be sent several times. It is read when it is made, as the platform does. */
export class Call {
  readonly method: string;
  readonly url: URL;
  /** The call's own, which follows the caller's: one signal may be that of thousands of calls. */
  readonly signal: AbortSignal;
  /** Whether its body can be sent more than once. */
  readonly sendsAgain: boolean;
  private readonly init: RequestInit;
  /** What is sent next: the first time what the caller gave. */
  private input: FetchInput;
  /** Whether the body is the request object's own, which is used up as it is sent. */
  private readonly ownBody: boolean;
  private readonly sent: Request;
  private wasSent = false;

  /** @throws TypeError where the platform does: for a URL, a method or a body that cannot be sent. */
  constructor(input: FetchInput, init: RequestInit | undefined) {
    const request = isRequest(input) ? input : undefined;
    const body = bodyOf(init?.body);
    const { method = request?.method ?? 'GET', headers = request?.headers } = init ?? {};
    const signal = init?.signal === undefined ? request?.signal : init.signal;
    this.input = input;
    this.init = { ...init };
    if (body.value !== undefined) this.init.body = body.value;
    if (init?.headers !== undefined) this.init.headers = copyOf(init.headers);
    this.ownBody = request !== undefined && request.body !== null && (body.value ?? null) === null;
    if (this.ownBody && request?.bodyUsed === true) {
      throw new TypeError('Cannot send a Request whose body has already been used.');
    }
    this.sendsAgain = body.again;
    // It is kept whole, as its signal follows the other one only while it lives.
    this.sent = new Request(request?.url ?? input, {
      method,
      ...(headers !== undefined && { headers }),
      ...(body.again && body.value !== undefined && { body: body.value }),
      ...(signal !== undefined && { signal }),
    });
    this.method = this.sent.method.toUpperCase();
    this.url = new URL(this.sent.url);
    this.signal = this.sent.signal;
  }

  get isAborted(): boolean {
    return this.signal.aborted;
  }

  /** Whether a second request does no more than the first. */
  get repeatable(): boolean {
    return IDEMPOTENT.has(this.method) || this.sent.headers.has('idempotency-key');
  }

  /** The request, made anew for each who asks, so that any may read its body. One that can be read once only is left out. */
  request(): Request {
    if (this.ownBody) return new Request((this.input as Request).clone(), this.initWithoutSignal());
    const { body, ...init } = this.initWithoutSignal();
    const own = this.sendsAgain && body !== undefined ? { ...init, body } : init;
    return new Request(isRequest(this.input) ? this.input.url : this.input, {
      ...own,
      method: this.method,
      headers: this.sent.headers,
    });
  }

  private initWithoutSignal(): RequestInit {
    const { signal: _signal, ...init } = this.init;
    return init;
  }

  /**
   * What to hand to `fetch` for the next attempt.
   *
   * @param last no other will follow, so no copy of the body is kept.
   */
  next(last: boolean): [FetchInput, RequestInit | undefined] {
    const sent = this.input;
    this.wasSent = true;
    if (this.ownBody && !last) this.input = (sent as Request).clone();
    return [sent, this.init];
  }

  /** Drops what is not going to be sent: a copy of the body, or as the platform does the body of an aborted call. */
  end(): void {
    if (!this.wasSent && !this.isAborted) return;
    const body = this.ownBody ? (this.input as Request).body : this.init.body;
    const isLeft = this.ownBody ? !(this.input as Request).bodyUsed : !this.wasSent;
    if (!(body instanceof ReadableStream) || body.locked || !isLeft) return;
    // Nobody waits for it; a stream that fails to be cancelled is of no more use than one that does not.
    body.cancel(this.signal.reason).catch(() => undefined);
  }
}

/** A Request, of this platform or of another implementation of fetch. */
function isRequest(input: FetchInput): input is Request {
  return typeof input === 'object' && !(input instanceof URL) && 'url' in input;
}

function copyOf(headers: NonNullable<RequestInit['headers']>): NonNullable<RequestInit['headers']> {
  if (headers instanceof Headers) return new Headers(headers);
  if (Symbol.iterator in headers) return [...headers] as [string, string][];
  return { ...headers };
}
