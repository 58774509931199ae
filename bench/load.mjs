// Puts load on a server of this machine, with wrk or, where there is none, autocannon.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { pinned, pins, wrkVersion } from './machine.mjs';

export const CONNECTIONS = 64;

const autocannon = fileURLToPath(import.meta.resolve('autocannon'));

/** Answers per second and in all, and how many of them were not 2xx. */
export async function load(port, seconds) {
  const url = `http://127.0.0.1:${port}/`;
  const duration = ['-c', `${CONNECTIONS}`, '-d', `${seconds}`];
  const [command, args] = wrkVersion
    ? ['wrk', ['-t', '1', ...duration, url]]
    : [process.execPath, [autocannon, '--json', '--no-progress', ...duration, url]];
  const text = await output(...pinned(pins?.load, command, args));
  return wrkVersion ? ofWrk(text) : ofAutocannon(text);
}

function output(command, args) {
  return new Promise((resolve, reject) => {
    const started = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    started.stdout.setEncoding('utf8').on('data', (part) => {
      text += part;
    });
    started.once('error', reject);
    started.once('close', (code) => {
      if (code === 0) resolve(text);
      else reject(new Error(`${command} ended with ${code}`));
    });
  });
}

function ofWrk(text) {
  const number = (pattern) => Number(pattern.exec(text)?.[1] ?? 0);
  if (text.includes('Socket errors')) throw new Error(`wrk: ${/Socket errors.*/.exec(text)?.[0]}`);
  return {
    perSecond: number(/Requests\/sec:\s+([\d.]+)/),
    answers: number(/(\d+) requests in/),
    refused: number(/Non-2xx or 3xx responses: (\d+)/),
  };
}

function ofAutocannon(text) {
  const { duration, errors, non2xx, '2xx': served } = JSON.parse(text);
  if (errors > 0) throw new Error(`autocannon: ${errors} errors`);
  const answers = served + non2xx;
  return { perSecond: answers / duration, answers, refused: non2xx };
}
