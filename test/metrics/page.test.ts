import { readFileSync } from 'node:fs';
import { onEvent, type TollgateEvents } from '@tollgate/core';
import { collectPrometheus } from '@tollgate/core/prometheus';
import { Registry } from 'prom-client';
import { expect, it, onTestFinished } from 'vitest';
import { ROOT } from '../readme/built.ts';

interface Made {
  readonly name: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

const page = readFileSync(`${ROOT}docs/metrics.md`, 'utf8');

/** The cells of the rows of a table, by what stands first in them. */
function rows(first: RegExp): string[][] {
  return page
    .split('\n')
    .map((line) => line.split(/ *\| */).slice(1, -1))
    .filter(([name = '']) => first.test(name));
}

it('the page lists the metrics that there are, with their labels', () => {
  const register = new Registry();
  onTestFinished(collectPrometheus({ register }));
  const listed = rows(/^`tollgate_\w+`$/).map(([name = '', , kind, labels = '']) => [
    name.slice(1, -1),
    { type: kind, labelNames: [...labels.matchAll(/\w+/g)].map(String) },
  ]);
  // prom-client's types leave out what a metric is made of.
  const made = register.getMetricsAsArray() as unknown as readonly Made[];
  expect(Object.fromEntries(listed)).toEqual(
    Object.fromEntries(made.map(({ name, type, labelNames }) => [name, { type, labelNames }])),
  );
  expect(listed).toHaveLength(made.length);
});

it('the page lists the channels that there are', () => {
  const listed = rows(/^`tollgate:[\w-]+`$/).map(([name = '']) => name.slice(1, -1));
  expect(listed).toHaveLength(9);
  for (const name of listed) onEvent(name as keyof TollgateEvents, () => undefined)();
  let said = '';
  try {
    onEvent('none' as never, () => undefined);
  } catch (error) {
    said = String(error);
  }
  expect(said.match(/tollgate:[\w-]+/g)).toEqual(listed);
});
