import type { AddressInfo } from 'node:net';
import express5 from 'express';
import express4 from 'express4';
import { onTestFinished } from 'vitest';
import type { App, Built } from './app.ts';
import { buildExpress } from './express-app.ts';
import { buildFastify } from './fastify-app.ts';

export interface Server extends Built {
  /** Without a slash at its end. */
  readonly url: string;
  readonly port: number;
}

export interface Framework {
  readonly name: 'Fastify 5' | 'Express 5' | 'Express 4';
  /** Listens until the test is over. */
  readonly serve: (app: App) => Promise<Server>;
}

/** Every framework that an adapter speaks to: what holds over HTTP holds in all of them. */
export const FRAMEWORKS: readonly Framework[] = [
  { name: 'Fastify 5', serve: listening(buildFastify) },
  { name: 'Express 5', serve: listening((app) => buildExpress(express5, app)) },
  {
    name: 'Express 4',
    // What the builder uses of Express is the same in 4; their types do not know of one another.
    serve: listening((app) => buildExpress(express4 as unknown as typeof express5, app)),
  },
];

function listening(build: (app: App) => Promise<Built>): Framework['serve'] {
  return async (app) => {
    const built = await build(app);
    onTestFinished(built.stop);
    const address = built.http.address();
    const port = typeof address === 'string' ? 0 : (address as AddressInfo).port;
    return { ...built, port, url: `http://127.0.0.1:${port}` };
  };
}
