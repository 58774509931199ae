const UP_TO_999 = Array.from({ length: 1_000 }, (_, n) => `${n}`);
const THREE_DIGITS = UP_TO_999.map((digits) => digits.padStart(3, '0'));

/**
 * A whole number of 0 or more in decimal digits, as `${n}` is. V8 keeps every text that it makes of a number in a table,
 * where one that is never asked for again, such as what is left of a large budget, costs more than to put it together.
 */
export function decimal(n: number): string {
  if (n < 1_000) return UP_TO_999[n] as string;
  if (n < 1_000_000) return `${UP_TO_999[Math.trunc(n / 1_000)]}${THREE_DIGITS[n % 1_000]}`;
  if (n >= 1_000_000_000) return `${n}`;
  const thousands = Math.trunc(n / 1_000);
  return `${UP_TO_999[Math.trunc(n / 1_000_000)]}${THREE_DIGITS[thousands % 1_000]}${THREE_DIGITS[n % 1_000]}`;
}
