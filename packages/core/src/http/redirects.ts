import type { ServerResponse } from 'node:http';
import type { Decision } from '../decision.ts';
import { suppressed } from './headers.ts';

const FIELDS: ReadonlySet<string> = new Set([
  'ratelimit',
  'ratelimit-policy',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
]);

/**
 * Takes the rate-limit fields off a response that turns out to be a redirect, for decisions with nothing remaining:
 * a client that paces itself would not dare to follow it. The status is known only when the head is written.
 */
export function hideFromRedirects(response: ServerResponse, decisions: readonly Decision[]): void {
  const writeHead = response.writeHead.bind(response) as (...head: unknown[]) => ServerResponse;
  const patched = (status: number, ...rest: unknown[]): ServerResponse => {
    if (suppressed(decisions, status)) {
      for (const name of response.getHeaderNames())
        if (FIELDS.has(name)) response.removeHeader(name);
      const given = rest.at(-1);
      if (typeof given === 'object' && given !== null && !Array.isArray(given)) {
        for (const name of Object.keys(given)) {
          if (FIELDS.has(name.toLowerCase())) Reflect.deleteProperty(given, name);
        }
      }
    }
    return writeHead(status, ...rest);
  };
  response.writeHead = patched as typeof response.writeHead;
}
