import type { IncomingMessage } from 'node:http';
import type { Answer } from './answer.ts';
import type { Desk } from './desk.ts';

/** What the plugin uses of a Fastify request. */
export interface MountedRequest {
  readonly raw: IncomingMessage;
  readonly params: unknown;
}

/** What the plugin uses of a Fastify reply. */
export interface MountedReply {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: Buffer): unknown;
}

/** What the plugin uses of a Fastify instance, so that the package needs no Fastify. */
export interface FastifyHost {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: null) => void) => void,
  ): unknown;
  addHook(name: 'onClose', hook: () => Promise<void>): unknown;
  all(
    path: string,
    options: object,
    handler: (request: MountedRequest, reply: MountedReply) => unknown,
  ): unknown;
}

/** A Fastify plugin. */
export type FastifyMount = (app: FastifyHost, options: object) => Promise<void>;

/** Mounts the page under the prefix that it is registered with. Its routes are outside the limits. */
export function mountIn<R>(desk: Desk<R>, close: () => void): FastifyMount {
  return async (app) => {
    // The body is read here, whatever parsers the app has.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, _payload, done) => done(null));
    app.addHook('onClose', async () => close());
    const answer = async (
      request: MountedRequest,
      reply: MountedReply,
      path: string,
    ): Promise<unknown> => send(reply, await desk.answer(request as R, request.raw, path));
    const unlimited = { config: { rateLimit: false } };
    app.all('/', unlimited, (request, reply) => answer(request, reply, '/'));
    app.all('/*', unlimited, (request, reply) =>
      answer(request, reply, `/${(request.params as { readonly '*': string })['*']}`),
    );
  };
}

function send(reply: MountedReply, { status, headers, body }: Answer): unknown {
  reply.code(status);
  for (const [name, value] of Object.entries(headers)) reply.header(name, value);
  return reply.send(Buffer.from(body));
}
