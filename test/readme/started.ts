import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { ROOT } from './built.ts';

/** A program that runs in a process of its own. */
export interface Started {
  /** What it has printed so far. */
  readonly output: () => string;
  /** Asks it to end as Ctrl-C does. Returns its exit status. */
  readonly interrupt: () => Promise<number | null>;
  /** Its exit status, once it ends. */
  readonly ended: Promise<number | null>;
}

/** Starts `node examples/<file>` and waits until it has printed `ready`, or ended. It is ended with the test. */
export async function start(
  file: string,
  ready: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Started> {
  const child = spawn(process.execPath, [`examples/${file}`], {
    cwd: ROOT,
    env: { ...process.env, PORT: '', FASTIFY_PORT: '', EXPRESS_PORT: '', REDIS_URL: '', ...env },
  });
  const ended = once(child, 'close').then(([status]) => status as number | null);
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  let output = '';
  const isReady = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (output.includes(ready)) resolve();
      });
    }
  });
  await Promise.race([isReady, ended]);
  return {
    output: () => output,
    interrupt: () => {
      child.kill('SIGINT');
      return ended;
    },
    ended,
  };
}

/** The requests of the `curl` lines that a program printed, in order. */
export function curlsOf(output: string): (() => Promise<Response>)[] {
  const lines = output.split('\n').filter((line) => line.startsWith('  curl -i '));
  return lines.map((line) => {
    const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare);
    const all = (option: string): string[] =>
      words.flatMap((word, at) => (words[at - 1] === option && word !== undefined ? [word] : []));
    const url = words.find((word) => word?.startsWith('http://')) ?? '';
    const [body] = all('-d');
    const headers = new Headers(
      body === undefined ? {} : { 'Content-Type': 'application/x-www-form-urlencoded' },
    );
    for (const [name = '', value = ''] of all('-H').map((header) => header.split(': '))) {
      headers.set(name, value);
    }
    return () => fetch(url, body === undefined ? { headers } : { method: 'POST', headers, body });
  });
}

/** Repeats a request until it is refused. Returns the refusal and how many were admitted before it. */
export async function untilRefused(
  request: () => Promise<Response>,
  most: number,
): Promise<{ refusal: Response; admitted: number }> {
  for (let admitted = 0; admitted < most; admitted++) {
    const response = await request();
    if (response.status === 429) return { refusal: response, admitted };
    await response.arrayBuffer();
  }
  throw new Error(`${most} requests were admitted, none refused.`);
}

/** Listens on a free port until the test is over. Returns the base URL. */
export async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A port that is taken until the test is over. */
export async function takenPort(): Promise<string> {
  return new URL(await listen(createServer())).port;
}
