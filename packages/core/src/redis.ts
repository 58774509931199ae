export { type RedisClient } from './redis/clients.ts';
export { type BreakerOptions } from './redis/breaker.ts';
export { type RedisStore, redisStore, type RedisStoreOptions } from './redis/store.ts';
