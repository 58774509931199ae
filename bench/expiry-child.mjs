// One subject in a process of its own: the longest pauses while many keys come, and while they expire. Started by
// memory.mjs.
import { setImmediate, setTimeout } from 'node:timers/promises';
import { address, SUBJECTS } from './memory-subjects.mjs';

const { name, keys, windowMs, fillMs } = JSON.parse(process.argv[2]);
const { open, awaited = false } = SUBJECTS[name];

/** Background traffic: decisions per second, one in ten for a key never met before. */
const RATE = 100_000;
const NEW_KEY_EVERY = 10;
const FAMILIAR = 10_000;
/** Decisions in one turn of the event loop; few, so that a pause is never a long turn. */
const MOST_PER_TURN = 200;

let limiter;
let traffic = 0;
let filled = 0;

function backgroundKey() {
  traffic++;
  return traffic % NEW_KEY_EVERY === 0
    ? address('172', traffic)
    : address('192', traffic % FAMILIAR);
}

/** Decides at `rate` per second until `untilMs` after the start; returns the longest time between two turns. */
async function run(keyOf, rate, untilMs, startedMs) {
  const fromMs = performance.now();
  let done = 0;
  let longest = 0;
  let last = fromMs;
  for (;;) {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (now - startedMs >= untilMs) return longest;
    const due = Math.min(Math.floor(((now - fromMs) * rate) / 1_000) - done, MOST_PER_TURN);
    for (let i = 0; i < due; i++) {
      const key = keyOf(done + i);
      if (key === undefined) return longest;
      try {
        if (awaited) await limiter.check(key, i);
        else limiter.check(key, i);
      } catch {
        // A refusal.
      }
    }
    if (due > 0) done += due;
    await setImmediate();
  }
}

function heldBytes() {
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

// Windows counted from the epoch all end at once, at the worst moment there is.
await setTimeout(windowMs - (Date.now() % windowMs));
const before = heldBytes();
const startedMs = performance.now();
limiter = await open({ limit: 1_000, windowMs, rate: 1 });
const filling = await run(
  (index) => {
    filled = index;
    return index < keys ? address('10', index) : undefined;
  },
  (keys * 1_000) / fillMs,
  windowMs - 200,
  startedMs,
);
const calm = await run(backgroundKey, RATE, windowMs - 50, startedMs);
const expiring = await run(backgroundKey, RATE, 2 * windowMs + 500, startedMs);
const bytesAfter = (heldBytes() - before) / keys;
// Of keys that could not come in time nothing can be said.
process.send(filled < keys ? null : { filling, calm, expiring, bytesAfter });
// Timers of the subjects would keep the process.
process.disconnect();
process.exit();
