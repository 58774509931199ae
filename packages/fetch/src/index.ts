export { createFetch } from './fetch.ts';
export type { Family, ServerLimit } from './headers/fields.ts';
export { type RateLimitReading, readRateLimit } from './headers/reading.ts';
export type { BudgetOptions, FetchOptions, RetryOptions } from './options.ts';
export { type GiveUp, type GiveUpReason, type Outcome, outcomeOf, type Retry } from './outcome.ts';
export type { Settle, Usage } from './settling.ts';
export { readTokenUsage, settleTokens, type TokenUsage } from './usage.ts';
