// What a suite measured, round by round, and the numbers that can be said of it.

function quantile(sorted, share) {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)];
  return below + (sorted[Math.ceil(at)] - below) * (at % 1);
}

/** Median and quartiles; undefined of nothing. */
export function summary(values) {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    low: quantile(sorted, 0.25),
    high: quantile(sorted, 0.75),
    least: sorted[0],
  };
}

/** The rounds to measure: as many as asked for, or fewer where they would take longer than there is time. */
export function* roundsWithin({ rounds, minutes }) {
  const started = performance.now();
  for (let round = 0; round < rounds; round++) {
    const spent = performance.now() - started;
    if (round > 0 && (spent * (round + 1)) / round > minutes * 60_000) return;
    yield round;
  }
}

/** Samples by round and subject. A subject's comparison with another is made within each round. */
export class Samples {
  #rounds;
  /** Measurements thrown away since other processes had the machine. */
  disturbed;
  taken;

  /** Given what `toJSON` wrote, what was measured then. */
  constructor({ rounds = [], disturbed = 0, taken = 0 } = {}) {
    this.#rounds = rounds.map((round) => new Map(Object.entries(round ?? {})));
    this.disturbed = disturbed;
    this.taken = taken;
  }

  toJSON() {
    const rounds = Array.from(this.#rounds, (round) => Object.fromEntries(round ?? []));
    return { rounds, disturbed: this.disturbed, taken: this.taken };
  }

  get rounds() {
    return this.#rounds.length;
  }

  /** Whether there is anything of a subject. */
  has(subject) {
    return this.#rounds.some((round) => round?.has(subject));
  }

  add(round, subject, sample) {
    this.#rounds[round] ??= new Map();
    this.#rounds[round].set(subject, sample);
  }

  of(subject, metric) {
    return summary(this.#each(subject, (sample) => sample[metric]));
  }

  /** How many times `other`'s number a subject's is. */
  ratio(subject, other, metric, otherMetric = metric) {
    return this.#against(subject, other, (own, its) => own[metric] / its[otherMetric]);
  }

  /** By how much a subject's number is above `other`'s. */
  above(subject, other, metric) {
    return this.#against(subject, other, (own, its) => own[metric] - its[metric]);
  }

  #against(subject, other, compare) {
    return summary(
      this.#each(subject, (sample, round) => {
        const its = round.get(other);
        return its === undefined ? undefined : compare(sample, its);
      }),
    );
  }

  #each(subject, read) {
    return this.#rounds
      .filter((round) => round?.has(subject))
      .map((round) => read(round.get(subject), round))
      .filter((value) => value !== undefined);
  }
}

/** Digits that mean something: three, and no more than two behind the point. */
export function figure(value) {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A cell: the median, and the quartiles around it unless there was one round only. */
export function cell(numbers, write = figure) {
  if (numbers === undefined) return '–';
  const { median, low, high } = numbers;
  return low === high ? write(median) : `${write(median)} (${write(low)}–${write(high)})`;
}

/** A Markdown table, its columns aligned; numbers to the right. */
export function table(head, rows) {
  const width = head.map((text, column) =>
    Math.max(3, text.length, ...rows.map((row) => row[column].length)),
  );
  const line = (cells) =>
    `| ${cells
      .map((text, column) =>
        column === 0 ? text.padEnd(width[column]) : text.padStart(width[column]),
      )
      .join(' | ')} |`;
  const rule = width.map(
    (wide, column) => '-'.repeat(column === 0 ? wide : wide - 1) + (column === 0 ? '' : ':'),
  );
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}
