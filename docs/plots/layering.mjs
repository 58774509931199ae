// What a client that is over its own limit takes from the tenant's, when limits are asked one after the other and when
// they are decided as one: `node docs/plots/layering.mjs`.
import { createLimiter, memoryStore, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const SECONDS = 60;
const tenant = tokenBucket({ capacity: 100, rate: 1, per: '1s' });
const key = tokenBucket({ capacity: 5, rate: 1, per: '2s' });

/** One key of the tenant sends five requests a second. What is left for the tenant's other keys, over time. */
function leftOver(send) {
  const clock = manualClock();
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [
      { name: 'tenant', policy: tenant },
      { name: 'key', policy: key },
    ],
  });
  const points = [];
  let served = 0;
  for (let at = 0; at <= SECONDS * 1_000; at += 200) {
    points.push([at / 1_000, limiter.peek({ tenant: 'acme' }).remaining]);
    if (send(limiter)) served++;
    clock.advance(200);
  }
  limiter.close();
  return { points: stair(points), served };
}

const asOne = (limiter) => limiter.consume({ tenant: 'acme', key: 'acme-1' }).allowed;
const inTurn = (limiter) =>
  limiter.consume({ tenant: 'acme' }).allowed && limiter.consume({ key: 'acme-1' }).allowed;

export function draw() {
  const together = leftOver(asOne);
  const apart = leftOver(inTurn);
  return page(
    'What is left of a tenant’s budget while one of its keys is over its own limit',
    640,
    330,
    [
      chart({
        title: 'Left of the tenant’s 100 while one key is over its own limit',
        at: { left: 52, top: 48, width: 560, height: 200 },
        x: { most: SECONDS, step: 10 },
        y: { most: 100, step: 20 },
        series: [
          {
            name: `all limits decided as one: ${together.served} served`,
            colour: 0,
            points: together.points,
          },
          {
            name: `one limit after the other: ${apart.served} served`,
            colour: 1,
            points: apart.points,
          },
        ],
      }),
    ],
  );
}

writeIfMain(import.meta.url, draw);
