// What every example needs to run by itself, as in `node examples/fastify-api.mjs`.
import { realpathSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/**
 * Whether a module is the one that Node was started with.
 *
 * @param {string} url its `import.meta.url`
 */
export function isMain(url) {
  const [, started] = process.argv;
  return started !== undefined && pathToFileURL(realpathSync(started)).href === url;
}

/**
 * Listens on this machine only: on the port that a variable names, or on a free one. Returns the base URL.
 * A port that cannot be had ends the process with a message.
 *
 * @param {string} variable
 * @param {(port: number, host: string) => Promise<import('node:http').Server>} listen
 */
export async function serve(variable, listen) {
  try {
    const server = await listen(portFrom(variable), '127.0.0.1');
    return `http://127.0.0.1:${server.address().port}`;
  } catch (error) {
    console.error(error.code === 'EADDRINUSE' ? taken(variable) : `${variable}: ${error.message}`);
    return process.exit(1);
  }
}

/**
 * Stops on Ctrl-C, or when asked to end.
 *
 * @param {() => unknown} close
 */
export function closeOnSignal(close) {
  const stop = async () => {
    console.log('\nStopping.');
    await close();
    process.exit(0);
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
}

function portFrom(variable) {
  const text = process.env[variable] ?? '';
  if (text === '') return 0;
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new Error(`expected a port from 0 to 65535, got ${JSON.stringify(text)}`);
}

function taken(variable) {
  return `Port ${process.env[variable]} is taken. Set ${variable} to another, or leave it out for a free one.`;
}
