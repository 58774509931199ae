import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Those to call when a connection closes: one listener for all, since Node warns of more than a few. */
const byConnection = new WeakMap<Socket, Set<() => void>>();

/** Whether nobody waits for the answer any more. */
export function isGone(response: ServerResponse): boolean {
  // Neither has a response that a unit test made up.
  const socket = response.socket ?? (response.req as ServerResponse['req'] | undefined)?.socket;
  return response.closed || response.destroyed || socket?.destroyed === true;
}

/**
 * Calls back when a response is over, sent or not, and returns what takes that back.
 *
 * A response that stands behind others on its connection is not told when the connection closes: Node tells the first.
 */
export function whenOver(response: ServerResponse, call: () => void): () => void {
  const behind = response.socket === null ? callsOf(response.req.socket) : undefined;
  const over = (): void => {
    off();
    call();
  };
  const off = (): void => {
    response.off('close', over);
    behind?.delete(over);
  };
  response.once('close', over);
  behind?.add(over);
  return off;
}

function callsOf(socket: Socket): Set<() => void> {
  const known = byConnection.get(socket);
  if (known !== undefined) return known;
  const calls = new Set<() => void>();
  byConnection.set(socket, calls);
  socket.once('close', () => {
    for (const call of calls) call();
  });
  return calls;
}
