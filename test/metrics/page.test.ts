import { readFileSync } from 'node:fs';
import { onEvent, type TollgateEvents } from '@tollgate/core';
import { collectPrometheus } from '@tollgate/core/prometheus';
import { type Metric, Registry } from 'prom-client';
import { expect, it, onTestFinished } from 'vitest';
import { ROOT } from '../readme/built.ts';

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
    kind,
    [...labels.matchAll(/\w+/g)].map(String),
  ]);
  const made = register.getMetricsAsArray().map((metric: Metric) => {
    const { name, type, labelNames } = metric as unknown as {
      name: string;
      type: string;
      labelNames: string[];
    };
    return [name, type, labelNames];
  });
  expect(listed.toSorted()).toEqual(made.toSorted());
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
