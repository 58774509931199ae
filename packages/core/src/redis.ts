export { type RedisClient } from './redis/clients.ts';
export { type BreakerOptions } from './redis/guard.ts';
export { type RedisStore, redisStore, type RedisStoreOptions } from './redis/store.ts';
