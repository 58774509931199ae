// When the requests of a burst are served: a token bucket lets them pass at once, a leaky bucket one by one:
// `node docs/plots/queues.mjs`.
import { createLimiter, leakyBucket, memoryStore, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const SECONDS = 12;
/** Fifteen at once, and ten more six seconds later. */
const ARRIVALS = [...Array.from({ length: 15 }, () => 1), ...Array.from({ length: 10 }, () => 7)];

function served(policy) {
  const clock = manualClock();
  const start = clock() / 1_000;
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'api', policy }],
  });
  const moments = ARRIVALS.flatMap((at) => {
    clock.set(start + at * 1_000);
    const { allowed, delayMs } = limiter.consume({ api: 'key' });
    return allowed ? [at + delayMs / 1_000] : [];
  });
  limiter.close();
  return moments;
}

/** How many there were by each moment. */
function counted(moments) {
  return stair([
    [0, 0],
    ...moments.toSorted((a, b) => a - b).map((at, index) => [at, index + 1]),
    [SECONDS, moments.length],
  ]);
}

export function draw() {
  const token = served(tokenBucket({ capacity: 10, rate: 2, per: '1s' }));
  const leaky = served(leakyBucket({ capacity: 10, rate: 2, per: '1s' }));
  return page('Two bursts through a token bucket and a leaky bucket', 640, 350, [
    chart({
      title: 'Served by each moment: a burst of 15, and one of 10',
      at: { left: 44, top: 48, width: 568, height: 200 },
      x: { most: SECONDS, step: 2 },
      y: { most: 25, step: 5 },
      series: [
        { name: 'asked', colour: 3, points: counted(ARRIVALS), dashed: true },
        {
          name: `token bucket of 10, 2 a second: ${ARRIVALS.length - token.length} refused`,
          colour: 2,
          points: counted(token),
        },
        {
          name: `leaky bucket of 10, 2 a second: ${ARRIVALS.length - leaky.length} refused, none served in a crowd`,
          colour: 0,
          points: counted(leaky),
        },
      ],
    }),
  ]);
}

writeIfMain(import.meta.url, draw);
