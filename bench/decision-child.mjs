// One subject in a process of its own: nanoseconds per decision, and bytes per key. Started by memory.mjs.
import { address, SUBJECTS } from './memory-subjects.mjs';

const { name, keys } = JSON.parse(process.argv[2]);
const { open, awaited = false } = SUBJECTS[name];

const NEVER_REFUSES = { limit: 100_000_000, windowMs: 10_000 };
const REFUSES = { limit: 1, windowMs: 3_600_000 };
/** A bucket of these is not whole again before the end. */
const MANY_KEYS = { limit: 10, windowMs: 600_000 };
const WARM_MS = 200;
const WARM_DECISIONS = 200_000;
const BATCH_MS = 50;
const BATCHES = 7;
const MOST_VISITS = 400_000;

/** Every answer is kept for a moment, so that none is optimised away. */
let answer;

function decide(check, key, times) {
  for (let i = 0; i < times; i++) answer = check(key, 0);
}

async function decideAwaiting(check, key, times) {
  for (let i = 0; i < times; i++) {
    try {
      answer = await check(key, 0);
    } catch (refusal) {
      answer = refusal;
    }
  }
}

/** Nanoseconds that each of so many decisions takes. */
async function timed(check, key, times) {
  const from = performance.now();
  if (awaited) await decideAwaiting(check, key, times);
  else decide(check, key, times);
  return ((performance.now() - from) * 1e6) / times;
}

async function oneKey(numbers, expected) {
  const { check, allowed } = await open(numbers);
  const key = address('10', 7);
  const started = performance.now();
  let fastest = Infinity;
  for (let i = 0; i < WARM_DECISIONS || performance.now() - started < WARM_MS; i += 1_000) {
    fastest = Math.min(fastest, await timed(check, key, 1_000));
  }
  const perBatch = Math.ceil((BATCH_MS * 1e6) / fastest);
  const batches = [];
  for (let i = 0; i < BATCHES; i++) batches.push(await timed(check, key, perBatch));
  if (allowed(answer) !== expected) throw new Error(`${name} decided wrongly`);
  return batches.sort((a, b) => a - b)[BATCHES >> 1];
}

function heldBytes() {
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** 0 to count - 1, shuffled, always alike. */
function shuffled(count) {
  const order = Uint32Array.from({ length: count }, (_, index) => index);
  let random = 0x9e3779b9;
  for (let i = count - 1; i > 0; i--) {
    random ^= random << 13;
    random ^= random >>> 17;
    random ^= random << 5;
    const j = (random >>> 0) % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

async function visit(check, order, keyOf) {
  for (let i = 0; i < order.length; i++) {
    const index = order[i];
    answer = awaited ? await check(keyOf(index, i), index) : check(keyOf(index, i), index);
  }
}

/** Meets every key once, then measures meeting some again, in random order and each in a string of its own. */
async function manyKeys() {
  const inOrder = Uint32Array.from({ length: keys }, (_, index) => index);
  const order = shuffled(keys).subarray(0, Math.min(keys, MOST_VISITS));
  const { check, allowed } = await open(MANY_KEYS);
  answer = undefined;
  const before = heldBytes();
  await visit(check, inOrder, (index) => address('10', index));
  const bytesPerKey = (heldBytes() - before) / keys;
  const strings = Array.from(order, (index) => address('10', index));
  const from = performance.now();
  await visit(check, order, (_, place) => strings[place]);
  const random = ((performance.now() - from) * 1e6) / order.length;
  if (!allowed(answer)) throw new Error(`${name} decided wrongly`);
  return { random, bytesPerKey };
}

const hot = await oneKey(NEVER_REFUSES, true);
const refused = await oneKey(REFUSES, false);
process.send({ hot, refused, ...(await manyKeys()) });
// Timers of the subjects would keep the process.
process.disconnect();
process.exit();
