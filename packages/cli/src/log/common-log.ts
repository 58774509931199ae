import { CLF_LENGTH, clfTime } from './clf-time.ts';
import { type LogRequest, type Read, routeOptionsOf } from './request.ts';

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = 0x5b;
const CLOSE = 0x5d;

const NO_HEADERS = {};

/** Texts are cut out when they are read: many thousand requests wait to be put in order, and most limits read one. */
class CommonRequest implements LogRequest {
  readonly time: number;
  readonly headers = NO_HEADERS;
  readonly duration = undefined;
  readonly fields = undefined;
  private readonly text: string;
  private readonly address: number;
  private readonly afterAddress: number;
  private readonly from: number;
  private readonly afterMethod: number;
  private readonly afterUrl: number;

  constructor(
    time: number,
    text: string,
    address: number,
    afterAddress: number,
    from: number,
    afterMethod: number,
    afterUrl: number,
  ) {
    this.time = time;
    this.text = text;
    this.address = address;
    this.afterAddress = afterAddress;
    this.from = from;
    this.afterMethod = afterMethod;
    this.afterUrl = afterUrl;
  }

  get ip(): string {
    return this.text.slice(this.address, this.afterAddress);
  }

  get method(): string {
    return this.text.slice(this.from, this.afterMethod);
  }

  get url(): string {
    return this.text.slice(this.afterMethod + 1, this.afterUrl);
  }

  get routeOptions(): { readonly url: string } {
    return routeOptionsOf(this.url);
  }
}

/** Where a character stands in a part of a text; `end` where it does not. Unlike indexOf() it never looks further. */
function find(text: string, wanted: number, from: number, end: number): number {
  let at = from;
  while (at < end && text.charCodeAt(at) !== wanted) at++;
  return at;
}

/**
 * Reads a line of the common log format, and of those that begin like it, such as combined:
 * `203.0.113.7 - ada [10/Oct/2026:13:55:36 +0000] "GET /users?page=2 HTTP/1.1" 200 2326 …`.
 *
 * A line whose request is none, as servers log them for scanners and broken connections, holds no request.
 */
export function readCommon(text: string, from: number, end: number): Read {
  const afterAddress = find(text, SPACE, from, end);
  if (afterAddress === from || afterAddress === end) return 'begins with no address';
  let open = afterAddress;
  let ms = NaN;
  do {
    open = find(text, OPEN, open + 1, end);
    // A user may be called anything, brackets included.
    if (text.charCodeAt(open + 1 + CLF_LENGTH) === CLOSE) ms = clfTime(text, open + 1);
  } while (Number.isNaN(ms) && open < end);
  const afterTime = open + CLF_LENGTH + 2;
  if (afterTime > end) return 'has no time such as [10/Oct/2026:13:55:36 +0000]';
  const quote = find(text, QUOTE, afterTime, end);
  if (quote === end) return 'has no request in quotes';
  let last = quote + 1;
  while (last < end && text.charCodeAt(last) !== QUOTE) {
    last += text.charCodeAt(last) === BACKSLASH ? 2 : 1;
  }
  if (last >= end) return 'ends within the request';
  const afterMethod = find(text, SPACE, quote + 1, last);
  const afterUrl = find(text, SPACE, afterMethod + 1, last);
  if (afterMethod === last || afterMethod === quote + 1 || afterUrl === afterMethod + 1)
    return null;
  return new CommonRequest(ms * 1_000, text, from, afterAddress, quote + 1, afterMethod, afterUrl);
}
