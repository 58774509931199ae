import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { apiKey, concurrency, createLimiter, type Decision, fixedWindow } from '@tollgate/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type AppGate, type AppRequest, header } from './app.ts';
import { dial, firstLine, speak } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS, type Server } from './servers.ts';

const policy = fixedWindow({ limit: 3, window: '60s' });

function upgrade(...headers: string[]): string {
  return [
    'GET /socket HTTP/1.1',
    'Host: x',
    'Connection: Upgrade',
    'Upgrade: chat',
    ...headers,
    '',
    '',
  ].join('\r\n');
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** An app whose upgrades ask the gate, and go on as sockets that a test can end. */
  async function upgrading(gate: AppGate, trust?: string) {
    const server = await serve({ gates: [gate], ...(trust !== undefined && { trust }) });
    const open: { readonly socket: Duplex; readonly decision: Decision }[] = [];
    const faults: unknown[] = [];
    server.http.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
      const answer = async (): Promise<void> => {
        const decision = await server.gate.consume(request);
        if (!decision.allowed) {
          const wait = Math.ceil(decision.retryAfterMs / 1_000);
          socket.end(
            `HTTP/1.1 ${decision.reason === 'denied' ? 403 : 429} Refused\r\nRetry-After: ${wait}\r\nConnection: close\r\n\r\n`,
          );
          return;
        }
        socket.on('close', () => void decision.release());
        onTestFinished(() => void socket.destroy());
        // Sockets of a server stay half open until it ends them too.
        socket.on('end', () => socket.end());
        socket.resume();
        socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n',
        );
        open.push({ socket, decision });
      };
      answer().catch((error: unknown) => {
        faults.push(error);
        socket.destroy();
      });
    });
    return { ...server, open, faults };
  }

  async function statusOf({ port }: Server, ...headers: string[]): Promise<string | undefined> {
    return (await firstLine(port, upgrade(...headers))).split(' ', 2)[1];
  }

  it('refuses upgrades that the framework does not see', async () => {
    const { store } = new Clock();
    const server = await upgrading({ store, policy });
    const answers: unknown[] = [];
    for (let i = 0; i < 5; i++) answers.push(await statusOf(server));
    expect(answers).toEqual(['101', '101', '101', '429', '429']);
    expect(server.gate.rejections()).toMatchObject({ default: { count: 2 } });
    const raw = await speak(server.port, upgrade());
    expect(raw).toContain('Retry-After: 60');
  });

  it('charges one budget for upgrades and requests', async () => {
    const { store } = new Clock();
    const server = await upgrading({ store, policy });
    expect(await statusOf(server)).toBe('101');
    expect((await fetch(server.url)).headers.get('ratelimit')).toBe('"default";r=1;t=60');
  });

  it('frees a slot when the socket closes', async () => {
    const { store } = new Clock();
    const server = await upgrading({
      store,
      limits: [{ name: 'sockets', policy: concurrency({ limit: 1 }) }],
    });
    const first = await dial(server.port, upgrade());
    await expect.poll(() => server.open.length).toBe(1);
    expect(await statusOf(server)).toBe('429');
    first.destroy();
    await expect
      .poll(async () => (await server.gate.limiter.peek({ sockets: '127.0.0.1' })).remaining)
      .toBe(1);
    expect(await statusOf(server)).toBe('101');
  });

  it('forbids what a list forbids, and keys by headers', async () => {
    const { store } = new Clock();
    const denied = await upgrading({
      store,
      limits: [{ name: 'closed', policy, denyList: ['127.0.0.1'] }],
    });
    expect(await statusOf(denied)).toBe('403');
    const one = fixedWindow({ limit: 1, window: '60s' });
    const keyed = await upgrading({
      store: new Clock().store,
      limits: [{ name: 'keyed', policy: one, by: apiKey() }],
    });
    const answers: unknown[] = [];
    for (const key of ['a', 'a', 'b']) answers.push(await statusOf(keyed, `x-api-key: ${key}`));
    expect(answers).toEqual(['101', '429', '101']);
  });

  it('rejects with a typed error when a function fails', async () => {
    const log = new Log();
    const by = (): never => {
      throw new Error('broken');
    };
    const server = await upgrading({
      store: new Clock().store,
      logger: log,
      limits: [{ name: 'broken', policy, by }],
    });
    expect(await speak(server.port, upgrade())).toBe('');
    expect(server.faults).toHaveLength(1);
    expect(server.faults[0]).toMatchObject({ code: 'TOLLGATE_FUNCTION' });
    expect(log.faulty).toEqual(['broken']);
  });

  it('goes by the address of the socket, and says so where a proxy is in front', async () => {
    const log = new Log();
    const keys: string[] = [];
    const server = await upgrading(
      {
        store: new Clock().store,
        policy,
        logger: log,
        onDecision: ({ binding }) => keys.push(String(binding?.key)),
      },
      'loopback',
    );
    for (let i = 0; i < 2; i++) await statusOf(server, 'X-Forwarded-For: 203.0.113.7');
    expect(keys).toEqual(['127.0.0.1', '127.0.0.1']);
    expect(log.codes).toEqual(['TOLLGATE_UNTRUSTED_PROXY']);
  });

  it('says once that no limit applied to an upgrade', async () => {
    const log = new Log();
    const by = (request: AppRequest): string | undefined => header('x-user')(request);
    const server = await upgrading({
      store: new Clock().store,
      logger: log,
      limits: [{ name: 'user', policy, by }],
    });
    expect([await statusOf(server), await statusOf(server)]).toEqual(['101', '101']);
    expect(log.codes).toEqual(['TOLLGATE_NO_LIMIT']);
  });

  it('leaves the messages of a socket to a limiter of their own', async () => {
    const clock = new Clock();
    const server = await upgrading({ store: clock.store, policy });
    const messages = createLimiter({
      store: clock.store,
      limits: [{ name: 'messages', policy: fixedWindow({ limit: 5, window: '1s' }) }],
    });
    const socket = await dial(server.port, upgrade());
    await expect.poll(() => server.open.length).toBe(1);
    const seen: boolean[] = [];
    server.open[0]?.socket.on('data', (chunk) => {
      for (const _ of String(chunk)) seen.push(messages.consume({ messages: 'socket-1' }).allowed);
    });
    socket.write('abcdefg');
    await expect.poll(() => seen.length).toBe(7);
    expect(seen.filter(Boolean)).toHaveLength(5);
    expect((await server.gate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(2);
    socket.destroy();
  });
});
