/** What may be sent as a body. */
export type BodyInput = NonNullable<RequestInit['body']>;

/** The body of a call, as it was when the call was made. */
export interface Body {
  /** Whether it can be sent more than once. */
  readonly again: boolean;
  readonly value: BodyInput | null | undefined;
}

/**
 * Takes a body as the platform's `fetch` does, at once: what the caller changes later is not sent. Streams, generators
 * and other iterables can be read only once.
 */
export function bodyOf(value: unknown): Body {
  if (value === undefined || value === null || typeof value === 'string') {
    return { again: true, value };
  }
  if (value instanceof URLSearchParams) return { again: true, value: new URLSearchParams(value) };
  if (value instanceof ArrayBuffer) return { again: true, value: value.slice(0) };
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value;
    return { again: true, value: new Uint8Array(buffer, byteOffset, byteLength).slice() };
  }
  if (value instanceof Blob) return { again: true, value };
  if (value instanceof FormData) return { again: true, value: copyOf(value) };
  if (isReadOnce(value)) return { again: false, value: value as BodyInput };
  // The platform takes anything else for its text.
  return { again: true, value: value as BodyInput };
}

function copyOf(form: FormData): FormData {
  const copy = new FormData();
  for (const [name, entry] of form) {
    if (typeof entry === 'string') copy.append(name, entry);
    else copy.append(name, entry, entry.name);
  }
  return copy;
}

function isReadOnce(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  // Another implementation's form can be read again and again, though it is iterable.
  if (Reflect.get(value, Symbol.toStringTag) === 'FormData') return false;
  return Symbol.asyncIterator in value || Symbol.iterator in value || 'getReader' in value;
}
