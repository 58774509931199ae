import { EventEmitter } from 'node:events';
import { fixedWindow, rateLimit } from '@tollgate/express';
import type { Request, RequestHandler, Response } from 'express';
import { expect, test } from 'vitest';
import { silent } from './log.ts';

/** What a unit test of a handler makes up for a request: no more than handlers usually read. */
function madeUpRequest(ip: string): Request {
  return Object.assign(new EventEmitter(), {
    method: 'GET',
    url: '/',
    headers: {},
    ip,
  }) as unknown as Request;
}

function madeUpResponse(): Response & { headers: Record<string, unknown>; body: unknown } {
  const response = Object.assign(new EventEmitter(), {
    statusCode: 200,
    headers: {} as Record<string, unknown>,
    body: undefined as unknown,
    setHeader(name: string, value: unknown) {
      response.headers[name.toLowerCase()] = value;
    },
    writeHead: () => response,
    end(body: unknown) {
      response.body = body;
    },
  });
  return response as never;
}

function pass(handler: RequestHandler, request: Request, response: Response): unknown[] {
  const told: unknown[] = [];
  void handler(request, response, (error?: unknown) => told.push(error));
  return told;
}

test('requests that a unit test made up pass gates and are refused as any other', () => {
  const gate = (limit: number, name: string): RequestHandler =>
    rateLimit({
      limits: [{ name, policy: fixedWindow({ limit, window: '1h' }) }],
      logger: silent,
    });
  const [wide, narrow] = [gate(10, 'wide'), gate(1, 'narrow')];
  const outcomes = ['192.0.2.1', '192.0.2.1', '192.0.2.2'].map((ip) => {
    const request = madeUpRequest(ip);
    const response = madeUpResponse();
    const told = [...pass(wide, request, response), ...pass(narrow, request, response)];
    return [told, response.statusCode, response.headers['ratelimit']];
  });
  expect(outcomes).toEqual([
    [[undefined, undefined], 200, expect.stringContaining('"narrow";r=0')],
    [[undefined], 429, expect.stringContaining('"narrow";r=0')],
    [[undefined, undefined], 200, expect.stringContaining('"narrow";r=0')],
  ]);
});
