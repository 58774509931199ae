/** What a call of the engine asks for; a batch may hold any of them. Up to `charge` they are decisions. */
export const OPS = {
  consume: 1,
  attempt: 2,
  peek: 3,
  charge: 4,
  correct: 5,
  refund: 6,
  renew: 7,
  ban: 8,
  fold: 9,
  grant: 10,
} as const;
