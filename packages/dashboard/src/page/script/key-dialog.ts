/** What is known of one key, and what may be done to it; each change asks for confirmation. */
export const KEY_DIALOG: string = String.raw`
const dialog = byId('key');
const confirmation = byId('key-confirm');
/** The key that is open: as it was typed, or as a list shows it. */
let opened;
let standing;
let asking;

const REASONS = {
  ok: 'Admitted now',
  limited: 'Refused now: the limit is reached',
  overloaded: 'Refused now: the places left are kept for higher priorities',
  banned: 'Refused now: banned',
  denied: 'Refused: on the deny list',
  'store-unavailable': 'Refused now: the store does not answer',
};
const SOURCES = { store: 'the store', lease: 'a lease of this process', fallback: 'this process alone', none: 'no store' };
const QUESTIONS = {
  reset: ['Forget what this key has used, and its bans? It is then as if never seen.', 'Reset', 'Reset: the key is as if never seen.'],
  ban: ['Refuse every request of this key at this limit, for how long?', 'Ban', 'Banned.'],
  unban: ['Lift the ban of this key, and forget the refusals counted towards the next one?', 'Lift the ban', 'The ban is lifted.'],
};

function post(action, body) {
  const headers = { 'Content-Type': 'application/json' };
  return request('api/' + action, { method: 'POST', headers, body: JSON.stringify(body) }, 10000);
}

function note(text, isBad) {
  const place = byId('key-note');
  if (text === place.textContent) return;
  place.replaceChildren(...(text === '' ? [] : [element('p', { class: isBad ? 'note bad' : 'note' }, text)]));
}

function openKey(key) {
  opened = key;
  standing = undefined;
  say(byId('key-limit'), 'Limit ' + key.limit);
  say(byId('key-name'), printable(key.key === undefined ? key.listed : key.key));
  note('', false);
  byId('key-standing').replaceChildren(element('p', { class: 'quiet' }, 'Looking it up …'));
  ask(undefined);
  offerPolicies();
  if (!dialog.open) dialog.showModal();
  void peek();
}

/** Where requests bring their policies, the operator may say by which one to look. */
function offerPolicies() {
  const { varies, policies } = latest.limits.find(({ name }) => name === opened.limit);
  byId('key-policy-label').hidden = !varies || policies.length < 2;
  byId('key-policy').replaceChildren(
    element('option', { value: '' }, 'The one that it was refused by last'),
    ...policies.map(({ algorithm, numbers }, i) => element('option', { value: i }, algorithm + ': ' + numbers)));
}

async function peek() {
  const key = opened;
  const chosen = byId('key-policy').value;
  try {
    const found = await post('peek', chosen === '' ? key : { ...key, policy: Number(chosen) });
    if (opened !== key) return;
    standing = found;
    showStanding(found);
  } catch (error) {
    if (opened === key) byId('key-standing').replaceChildren(element('p', { class: 'note bad' }, error.message));
    if (opened === key) standing = undefined;
  }
  offerActions();
}

function showStanding(found) {
  const { allowed, reason, shadow, remaining, limit, source, cost, policy } = found;
  const verdict = element('div', { class: 'verdict ' + (allowed ? 'good' : 'bad') },
    element('strong', {}, (shadow && !allowed ? 'In shadow mode. ' : '') + REASONS[reason]),
    element('span', {}, retryText(found)),
    shape('svg', { class: 'gauge', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      shape('rect', { width: 100, height: 4 }),
      shape('rect', { class: 'left', width: limit === 0 ? 0 : (100 * remaining) / limit, height: 4 })));
  const facts = [
    ['Remaining', count(remaining) + ' of ' + count(limit)],
    ['One more in', found.nextAfterMs === 0 ? 'nothing is missing' : lengthOf(found.nextAfterMs)],
    ['Whole again in', found.resetAfterMs === 0 ? 'is whole' : lengthOf(found.resetAfterMs)],
    ['Retry after', found.retryAfterMs === 0 ? 'no wait' : lengthOf(found.retryAfterMs)],
    ['Asked for', counted(cost, 'unit')],
    ['Answered by', SOURCES[source]],
    ['Policy', policy.algorithm + ': ' + policy.numbers],
  ];
  byId('key-standing').replaceChildren(
    verdict,
    element('dl', { class: 'facts' }, ...facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])));
}

const lengthOf = (ms) => (ms === null ? 'never' : length(ms));

function retryText({ allowed, retryAfterMs, remaining }) {
  if (allowed) return counted(remaining, 'unit') + ' left';
  if (retryAfterMs === null) return 'However long it waits.';
  return 'Admitted in ' + length(retryAfterMs) + ', at ' + instant(Date.now() + retryAfterMs);
}

function offerActions() {
  const { bans } = latest.store;
  for (const button of byId('key-actions').children) {
    const { action } = button.dataset;
    const isOffered = action === 'reset' || (bans && (action === 'ban' || (standing && standing.reason === 'banned')));
    if (!isOffered && button === document.activeElement) byId('key-close').focus();
    button.hidden = !isOffered;
  }
}

/** Asks for confirmation of an action; undefined offers the actions again. */
function ask(action) {
  const before = asking;
  asking = action;
  confirmation.hidden = action === undefined;
  byId('key-actions').hidden = action !== undefined;
  if (action === undefined) {
    offerActions();
    const button = byId('key-actions').querySelector('[data-action="' + before + '"]');
    if (button) (button.hidden ? byId('key-close') : button).focus();
    return;
  }
  note('', false);
  const [question, yes] = QUESTIONS[action];
  say(byId('key-question'), question);
  say(byId('key-yes'), yes);
  byId('key-for').hidden = action !== 'ban';
  (action === 'ban' ? byId('key-for-ms') : byId('key-yes')).focus();
}

async function carryOut(action) {
  const key = opened;
  byId('key-yes').disabled = true;
  try {
    await post(action, action === 'ban' ? { ...key, forMs: Number(byId('key-for-ms').value) } : key);
    if (opened === key) note(QUESTIONS[action][2], false);
  } catch (error) {
    if (opened === key) note(error.message, true);
  } finally {
    byId('key-yes').disabled = false;
  }
  if (opened !== key) return;
  await peek();
  if (opened === key) ask(undefined);
  void poll();
}

byId('key-actions').addEventListener('click', ({ target }) => {
  if (target.dataset.action) ask(target.dataset.action);
});
confirmation.addEventListener('submit', (event) => {
  event.preventDefault();
  void carryOut(asking);
});
byId('key-no').addEventListener('click', () => ask(undefined));
byId('key-close').addEventListener('click', () => dialog.close());
byId('key-policy').addEventListener('change', () => void peek());
dialog.addEventListener('close', () => { opened = undefined; });
byId('lookup').addEventListener('submit', (event) => {
  event.preventDefault();
  if (latest) openKey({ limit: byId('lookup-limit').value, key: byId('lookup-key').value });
});
`;
