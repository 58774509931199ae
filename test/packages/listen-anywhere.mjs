// Preloaded by the test that runs a page's server: gives whoever asks for port 3000 a free one, and says which.
import { Server } from 'node:net';

const listen = Reflect.get(Server.prototype, 'listen');
Server.prototype.listen = function (...args) {
  this.once('listening', () => process.send?.(this.address().port));
  return listen.apply(this, args[0] === 3000 ? [0, ...args.slice(1)] : args);
};
