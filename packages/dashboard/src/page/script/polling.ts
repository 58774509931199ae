/** Fetches what the page shows, again and again while it is seen, and says so when that fails. */
export const POLLING: string = String.raw`
const EVERY_MS = { '2m': 1000, '1h': 5000, '24h': 5000 };
const AFTER_FAILURE_MS = 2000;
/** Whether the page is mounted with a slash at its end or without. */
const base = location.pathname.replace(/\/*$/, '/');
let latest;
let timer;
let round = 0;

/** The JSON of an answer. What is wrong is thrown in words. */
async function read(answer) {
  const isJson = (answer.headers.get('content-type') || '').includes('json');
  const body = isJson ? await answer.json() : undefined;
  if (answer.ok && body !== undefined) return body;
  if (answer.status === 429) {
    throw new Error('The limits refuse the requests of this page. Mount it in front of the gate, where they do not apply.');
  }
  throw new Error((body && body.error) || 'The server answered ' + answer.status + '.');
}

/** Asks the server. What is wrong is thrown in words. */
async function request(path, options, mostMs) {
  let answer;
  try {
    answer = await fetch(base + path, { ...options, signal: AbortSignal.timeout(mostMs) });
  } catch {
    throw new Error('The server does not answer.');
  }
  return read(answer);
}

const chosenRange = () => document.querySelector('input[name=range]:checked').value;

async function poll() {
  clearTimeout(timer);
  const mine = ++round;
  if (document.hidden) return showLive('warn', 'Paused');
  let wait = EVERY_MS[chosenRange()];
  try {
    const state = await request('api/state?range=' + chosenRange(), {}, 8000);
    if (mine !== round) return;
    latest = state;
    show(state);
    if (dialog.open && opened) void peek();
  } catch (error) {
    if (mine !== round) return;
    showFailure(error.message);
    wait = AFTER_FAILURE_MS;
  }
  timer = setTimeout(poll, wait);
}

function showLive(kind, text) {
  byId('live').className = 'pill ' + kind;
  say(byId('live'), text);
}

function showFailure(what) {
  const from = latest === undefined ? '' : ' What you see is from ' + time(latest.atMs) + '.';
  byId('banner').hidden = false;
  say(byId('banner'), what + from + ' The page goes on trying.');
  document.body.classList.add('stale');
  showLive('bad', 'Not updating');
}

function show(state) {
  byId('banner').hidden = true;
  document.body.classList.remove('stale');
  showLive('good', 'Live');
  showAbout(state);
  showStore(state.store);
  showLimits(state);
}

function showAbout({ process, operator, refusedOf, refusedError, keys }) {
  say(byId('process'), printable(process.host) + ', process ' + process.id + (operator === undefined ? '' : ' · as ' + printable(operator)));
  say(byId('about-plots'), 'Plots and figures count what this process decided since ' + instant(process.sinceMs) + '. Other processes show their own.');
  const whose = refusedOf === 'fleet'
    ? 'The most refused keys are those of all processes on this store, in the last 24 hours and up to 5 seconds behind.'
    : refusedError === undefined
      ? 'The most refused keys are those of this process, in the last 24 hours.'
      : 'The store does not tell the most refused keys of all processes (' + printable(refusedError) + '): these are of this process.';
  const how = { clear: '', hash: ' Keys are shown as hashes, as logKeys says.', hidden: ' Keys are not shown, as logKeys says; look one up by typing it.' };
  say(byId('about-keys'), whose + how[keys]);
}

function showStore({ state, sinceMs, lastError, shared }) {
  const kind = { up: 'good', probing: 'warn', down: 'bad' }[state];
  const name = shared ? 'Store' : 'Memory store';
  byId('store').className = 'pill ' + kind;
  say(byId('store'), name + ' ' + state + ' since ' + instant(sinceMs));
  const banner = byId('store-banner');
  const about = state === 'up' && lastError !== undefined ? 'The last trouble with the store: ' + printable(lastError) : '';
  say(byId('about-store'), about);
  banner.hidden = state === 'up';
  say(banner, state === 'up' ? '' : 'The store does not answer since ' + instant(sinceMs) + ', and each limit does what it says for that.' + (lastError === undefined ? '' : ' ' + printable(lastError)));
}

for (const input of document.querySelectorAll('input[name=range]')) input.addEventListener('change', poll);
document.addEventListener('visibilitychange', poll);
void poll();
`;
