import type { Limiter } from '@tollgate/core';
export function shownKey(_limiter: Limiter, key: string): string | undefined {
  return key;
}
