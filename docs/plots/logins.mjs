// How many passwords a guesser gets to try in a day, by what stands in the way: `node docs/plots/logins.mjs`.
import { createLimiter, fixedWindow, memoryStore, slidingLog } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const HOURS = 24;
const EVERY_MS = 30_000;

const policy = slidingLog({ limit: 5, window: '15m' });
const ban = { after: 10, within: '1h', for: '30m', growth: 2, max: '1d' };

/** A guess every half minute, round the clock: how many were let through to the password check, by the hour. */
function guesses(limit) {
  const clock = manualClock();
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'login', ...limit }],
  });
  const points = [[0, 0]];
  let tried = 0;
  for (let at = 0; at < HOURS * 3_600_000; at += EVERY_MS) {
    if (limiter.consume({ login: 'mallory' }).allowed) tried++;
    clock.advance(EVERY_MS);
    points.push([at / 3_600_000, tried]);
  }
  limiter.close();
  // Where nothing changes, a point says nothing.
  return stair(
    points.filter(
      ([, count], index) => count !== points[index - 1]?.[1] || index === points.length - 1,
    ),
  );
}

const total = (points) => points.at(-1)[1];

export function draw() {
  const day = guesses({ policy: fixedWindow({ limit: 100, window: '1d' }) });
  const log = guesses({ policy });
  const banned = guesses({ policy, ban });
  return page('How many passwords a guesser gets to try in a day', 640, 350, [
    chart({
      title: 'Passwords tried by one who guesses every half minute',
      at: { left: 52, top: 48, width: 560, height: 200 },
      x: { most: HOURS, step: 4, unit: ' h' },
      y: { most: 500, step: 100 },
      series: [
        { name: `5 in a quarter of an hour: ${total(log)}`, colour: 1, points: log },
        {
          name: `100 a day: ${total(day)}, but the account is shut until midnight`,
          colour: 3,
          points: day,
        },
        {
          name: `5 in a quarter of an hour, and bans that double: ${total(banned)}`,
          colour: 0,
          points: banned,
        },
      ],
    }),
  ]);
}

writeIfMain(import.meta.url, draw);
