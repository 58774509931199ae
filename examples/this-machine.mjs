/**
 * Whether a request comes from a browser on this machine: over the loopback, not through a proxy, and to an address that
 * no other site can have its name point at. Enough to try the operators' page out. In a service let `authorize` ask who
 * is signed in, since behind a proxy on the same machine every request comes over the loopback.
 *
 * @param {{ headers: import('node:http').IncomingHttpHeaders, socket: import('node:net').Socket }} request
 */
export function isFromThisMachine({ headers, socket }) {
  const isLoopback = /^(::ffff:)?127\.|^::1$/.test(socket.remoteAddress ?? '');
  const isNamedSo = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i.test(headers.host ?? '');
  const isForwarded = ['forwarded', 'via', 'x-forwarded-for'].some((name) => name in headers);
  return isLoopback && isNamedSo && !isForwarded;
}
