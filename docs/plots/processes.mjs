// What four processes admit of one client's requests, by where they count: `node docs/plots/processes.mjs`.
import { createLimiter, memoryStore, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const SECONDS = 60;
const PROCESSES = 4;
const whole = tokenBucket({ capacity: 40, rate: 40, per: '1m' });
const quarter = tokenBucket({ capacity: 10, rate: 10, per: '1m' });

/** Four requests a second, of which `route` says where each goes: how many were admitted by each moment. */
function admitted(stores, policy, route) {
  const clock = manualClock();
  const shared = memoryStore({ clock });
  const limiters = Array.from({ length: PROCESSES }, () =>
    createLimiter({
      // One store object stands for Redis: the tests hold both to the same answers.
      store: stores === 'shared' ? shared : memoryStore({ clock }),
      limits: [{ name: 'api', policy }],
    }),
  );
  const points = [[0, 0]];
  let count = 0;
  for (let index = 0; index < SECONDS * 4; index++) {
    if (limiters[route(index)].consume({ api: 'client' }).allowed) count++;
    clock.advance(250);
    points.push([(index + 1) / 4, count]);
  }
  for (const limiter of limiters) limiter.close();
  return stair(points);
}

const inTurn = (index) => index % PROCESSES;
const always = () => 0;

export function draw() {
  const series = [
    ['in memory, each the whole limit', 1, admitted('own', whole, inTurn)],
    ['in Redis, one limit for all', 0, admitted('shared', whole, inTurn)],
    ['in memory, a quarter each, requests in turn', 2, admitted('own', quarter, inTurn)],
    [
      'in memory, a quarter each, one connection to one process',
      3,
      admitted('own', quarter, always),
    ],
  ];
  return page('What four processes admit of one client’s requests, by where they count', 640, 370, [
    chart({
      title: 'Admitted of 4 requests a second, under a limit of 40 a minute',
      at: { left: 52, top: 48, width: 560, height: 200 },
      x: { most: SECONDS, step: 10 },
      y: { most: 250, step: 50 },
      series: series.map(([name, colour, points]) => ({
        name: `${name}: ${points.at(-1)[1]}`,
        colour,
        points,
        dashed: colour === 2,
      })),
    }),
  ]);
}

writeIfMain(import.meta.url, draw);
