import type { ServerResponse } from 'node:http';

/** Whether nobody waits for the answer any more. */
export function isGone(response: ServerResponse): boolean {
  const socket = response.socket ?? response.req.socket;
  return response.closed || response.destroyed || socket.destroyed;
}

/**
 * Calls back when a response is over, sent or not, and returns what takes that back.
 *
 * A response that stands behind others on its connection is not told when the connection closes: Node tells the first.
 */
export function whenOver(response: ServerResponse, call: () => void): () => void {
  const socket = response.socket === null ? response.req.socket : undefined;
  const over = (): void => {
    off();
    call();
  };
  const off = (): void => {
    response.off('close', over);
    socket?.off('close', over);
  };
  response.once('close', over);
  socket?.once('close', over);
  return off;
}
