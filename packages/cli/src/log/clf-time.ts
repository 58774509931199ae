const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const MONTH_CODES = MONTHS.map((name) => code(name, 0));
const SLASH = 0x2f;
const COLON = 0x3a;
const SPACE = 0x20;
const PLUS = 0x2b;
const MINUS = 0x2d;

/** How long `10/Oct/2026:13:55:36 +0200` is. */
export const CLF_LENGTH = 26;

/** Midnight of the day that was read last, in ms: a log has few days. */
let lastDay = -1;
let lastMonth = -1;
let lastYear = -1;
let lastMidnight = 0;

function code(text: string, at: number): number {
  return (text.charCodeAt(at) << 16) | (text.charCodeAt(at + 1) << 8) | text.charCodeAt(at + 2);
}

/** Two digits as a number, or -100. */
function two(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 0x30;
  const ones = text.charCodeAt(at + 1) - 0x30;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -100;
}

/** Reads the time of the common log format that begins at `at`; milliseconds since the epoch, or NaN where it is none. */
export function clfTime(text: string, at: number): number {
  const day = two(text, at);
  const year = two(text, at + 7) * 100 + two(text, at + 9);
  const hour = two(text, at + 12);
  const minute = two(text, at + 15);
  const second = two(text, at + 18);
  if (
    text.charCodeAt(at + 2) !== SLASH ||
    text.charCodeAt(at + 6) !== SLASH ||
    text.charCodeAt(at + 11) !== COLON ||
    text.charCodeAt(at + 14) !== COLON ||
    text.charCodeAt(at + 17) !== COLON ||
    text.charCodeAt(at + 20) !== SPACE ||
    !(hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second <= 60)
  ) {
    return NaN;
  }
  const month = code(text, at + 3);
  if (day !== lastDay || month !== lastMonth || year !== lastYear) {
    const index = MONTH_CODES.indexOf(month);
    if (index === -1 || !(day >= 1 && day <= 31) || !(year >= 1970)) return NaN;
    lastMidnight = Date.UTC(year, index, day);
    lastDay = day;
    lastMonth = month;
    lastYear = year;
  }
  const sign = text.charCodeAt(at + 21);
  const zone = two(text, at + 22) * 60 + two(text, at + 24);
  if ((sign !== PLUS && sign !== MINUS) || !(zone >= 0)) return NaN;
  const east = sign === PLUS ? zone : -zone;
  return lastMidnight + ((hour * 60 + minute - east) * 60 + second) * 1_000;
}
