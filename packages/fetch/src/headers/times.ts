const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
const MONTH = `(${MONTHS.join('|')})`;
const CLOCK = String.raw`(\d\d):(\d\d):(\d\d)`;

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
const FIXDATE = new RegExp(`^\\w{3}, (\\d\\d) ${MONTH} (\\d{4}) ${CLOCK} GMT$`);
/** `Sunday, 06-Nov-94 08:49:37 GMT`, obsolete and still to be read */
const RFC850 = new RegExp(`^\\w{6,9}, (\\d\\d)-${MONTH}-(\\d\\d) ${CLOCK} GMT$`);
/** `Sun Nov  6 08:49:37 1994`, obsolete and still to be read; in UTC, though it does not say so */
const ASCTIME = new RegExp(`^\\w{3} ${MONTH} ([ \\d]\\d) ${CLOCK} (\\d{4})$`);
/** `2026-01-01T00:01Z`; without a zone it is taken for UTC */
const ISO = /^(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:?\d\d)?$/i;
/** `6m0s`, as Go writes durations */
const GO_DURATION = /^(?:\d+(?:\.\d+)?(?:h|ms|m|s|us|µs|ns))+$/;
const GO_PART = /(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)/g;
const DECIMAL = /^\d+(?:\.\d+)?$/;

const MS_PER: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  ns: 1e-6,
};

/** From these on a number is no length of time but a moment, in seconds or milliseconds since the epoch. */
const EPOCH_SECONDS = 1e9;
const EPOCH_MS = 1e12;

/** A number of 0 or more without a sign or a unit; undefined for any other text. Of 400 digits it is Infinity. */
export function parseDecimal(text: string): number | undefined {
  return DECIMAL.test(text) ? Number(text) : undefined;
}

/**
 * Reads a date of HTTP in any of its three forms.
 *
 * @param now in milliseconds since the epoch: years of two digits are at most 50 years after it.
 * @returns milliseconds since the epoch, or undefined where it is no such date.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const fixdate = FIXDATE.exec(text);
  if (fixdate !== null) {
    const [, day, month, year, ...clock] = fixdate;
    return moment(Number(year), month, day, clock);
  }
  const asctime = ASCTIME.exec(text);
  if (asctime !== null) {
    const [, month, day, hours, minutes, seconds, year] = asctime;
    return moment(Number(year), month, day, [hours, minutes, seconds]);
  }
  const rfc850 = RFC850.exec(text);
  if (rfc850 === null) return undefined;
  const [, day, month, short, ...clock] = rfc850;
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + Number(short);
  return moment(year > thisYear + 50 ? year - 100 : year, month, day, clock);
}

function moment(
  year: number,
  month = '',
  day = '',
  clock: readonly (string | undefined)[] = [],
): number | undefined {
  const [hours = NaN, minutes = NaN, seconds = NaN] = clock.map(Number);
  if (hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const ms = Date.UTC(year, MONTHS.indexOf(month), Number(day), hours, minutes, seconds);
  // The 31st of a month that has none would be read as a day of the next.
  return new Date(ms).getUTCDate() === Number(day) || seconds === 60 ? ms : undefined;
}

/**
 * Reads the reset of a budget in any of the forms in use: seconds from now, a moment in seconds or milliseconds since
 * the epoch, a date, or a duration as Go writes it.
 *
 * @param now the server's time in milliseconds since the epoch.
 * @returns milliseconds from now, at least 0; undefined where it says no time.
 */
export function parseReset(text: string, now: number): number | undefined {
  const number = parseDecimal(text);
  if (number !== undefined) {
    if (number >= EPOCH_MS) return Math.max(0, number - now);
    return number >= EPOCH_SECONDS ? Math.max(0, number * 1_000 - now) : number * 1_000;
  }
  if (GO_DURATION.test(text)) {
    let ms = 0;
    for (const [, amount, unit = ''] of text.matchAll(GO_PART)) {
      ms += Number(amount) * (MS_PER[unit] ?? NaN);
    }
    return ms;
  }
  const [, date, zone = 'Z'] = ISO.exec(text) ?? [];
  const at = date === undefined ? parseHttpDate(text, now) : Date.parse(`${date}${zone}`);
  return at === undefined || Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
