export type { Family, ServerLimit } from './headers/fields.ts';
export { type RateLimitReading, readRateLimit } from './headers/reading.ts';
