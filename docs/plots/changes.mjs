// A policy that is replaced while a key owes: `node docs/plots/changes.mjs`.
import { createLimiter, memoryStore, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const SECONDS = 60;
const UPDATE_AT = 20;
const before = tokenBucket({ capacity: 100, rate: 2, per: '1s' });
const after = tokenBucket({ capacity: 40, rate: 1, per: '1s' });

/** Eight units every four seconds, and a burst of sixty at ten: what is left. */
function left(update) {
  const clock = manualClock();
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'api', policy: before }],
  });
  const points = [];
  for (let second = 0; second <= SECONDS; second++) {
    if (second === UPDATE_AT && update) limiter.update('api', after);
    if (second === 10) limiter.consume({ api: 'acme' }, { cost: 60 });
    if (second % 4 === 0) limiter.consume({ api: 'acme' }, { cost: 8 });
    points.push([second, limiter.peek({ api: 'acme' }).remaining]);
    clock.advance(1_000);
  }
  limiter.close();
  return stair(points);
}

export function draw() {
  return page('What is left of a key’s budget when its policy is replaced', 640, 330, [
    chart({
      title: 'Left of a key’s budget; at 20 s the bucket of 100 becomes one of 40',
      at: { left: 52, top: 48, width: 560, height: 200 },
      x: { most: SECONDS, step: 10 },
      y: { most: 100, step: 20 },
      series: [
        {
          name: 'limiter.update() at 20 s: what is owed stays owed',
          colour: 0,
          points: left(true),
        },
        { name: 'no change', colour: 3, points: left(false), dashed: true },
      ],
    }),
  ]);
}

writeIfMain(import.meta.url, draw);
