import type { Cluster } from 'node:cluster';
import type { Logger } from './logger.ts';
import type { Store } from './store.ts';
import { MemoryStore } from './stores/memory.ts';

const MANY_PROCESSES =
  'this is one of several processes, each of which counts in its own memory, so together they admit up to as many times a limit as there are processes. Share one budget through redisStore() of @tollgate/core/redis, or divide the limits by the number of processes';

let told = false;

/** Says once that limits in memory are this process's own, where there are others beside it. */
export function tellOfProcesses(store: Store, logger: Logger): void {
  if (told || !(store instanceof MemoryStore) || !isOneOfSeveral()) return;
  told = true;
  logger.warn({ code: 'TOLLGATE_MANY_PROCESSES' }, MANY_PROCESSES);
}

/**
 * A worker of a cluster has a channel to its parent: without one the module, which takes its time, is not loaded.
 * PM2 numbers the instances of a program, a single one too: only a number above 0 says that there are several.
 */
function isOneOfSeveral(): boolean {
  return isWorker() || Number(process.env['NODE_APP_INSTANCE']) > 0;
}

function isWorker(): boolean {
  if (process.send === undefined) return false;
  // What it returns is what require() does, though its type is that of the ES module.
  const cluster = process.getBuiltinModule('node:cluster') as unknown as Cluster;
  return cluster.isWorker;
}
