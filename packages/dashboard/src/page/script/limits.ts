/** One card for each limit: its policy, what it admitted and refused, and the keys that it refused most. */
export const LIMITS: string = String.raw`
const SPANS = { '2m': '2 minutes', '1h': 'hour', '24h': '24 hours' };
const STEP_NAMES = { 1000: 'second', 30000: '30 seconds', 720000: '12 minutes' };
const FEW = 5;
const cards = new Map();
let cardsMade = 0;

function makeFigure(kind, label) {
  const name = element('dt', {}, ...(kind === '' ? [] : [swatch(kind)]), element('span', {}, label));
  const value = element('dd', {});
  return { node: element('div', {}, name, value), name: name.lastChild, value };
}

function makeRow(open) {
  const name = element('span', { class: 'name' });
  const many = element('span', { class: 'many' });
  const rate = element('span', { class: 'quiet' });
  const last = element('span', { class: 'quiet' });
  const bar = shape('rect', { height: 3, rx: 1.5 });
  const button = element('button', { type: 'button', class: 'row' }, name, many, rate, last,
    shape('svg', { class: 'bar', 'aria-hidden': 'true', viewBox: '0 0 100 3', preserveAspectRatio: 'none' },
      shape('rect', { class: 'track', width: 100, height: 3 }), bar));
  button.addEventListener('click', () => open());
  return {
    node: element('li', {}, button),
    update({ key, count: least, errorBound, lastAtMs, perMinute }, most, now) {
      say(name, key === '' ? 'key not shown' : printable(key));
      name.title = printable(key);
      button.disabled = key === '';
      say(many, count(least) + (errorBound > 0 ? ' – ' + count(least + errorBound) : ''));
      say(rate, count(Math.round(perMinute)) + ' a minute');
      say(last, ago(Math.max(0, now - lastAtMs)));
      bar.setAttribute('width', (100 * least) / most);
    },
  };
}

/** The most refused keys. It holds still while somebody points at it, or is in it with the keyboard. */
function makeList(limit) {
  const scope = element('span', { class: 'quiet' });
  const list = element('ol');
  const empty = element('p', { class: 'empty' });
  const more = element('button', { type: 'button', class: 'more' });
  const heading = element('span', {}, 'Most refused');
  const node = element('section', { class: 'refused-keys', 'aria-label': 'Keys that ' + limit + ' refused most' },
    element('h3', {}, heading, scope), empty, list, more);
  const rows = new Map();
  let showsAll = false;
  let shown;

  function update(next) {
    shown = next;
    const { keys, words, now } = next;
    say(heading, words.heading);
    say(scope, words.scope);
    say(empty, words.empty);
    empty.hidden = keys.length > 0;
    const listed = showsAll ? keys : keys.slice(0, FEW);
    const ids = listed.map(({ key }, i) => (key === '' ? 'place ' + i : 'key ' + key));
    const most = Math.max(1, ...keys.map((each) => each.count));
    const nodes = listed.map((each, i) => {
      if (!rows.has(ids[i])) rows.set(ids[i], makeRow(() => openKey({ limit, listed: each.key })));
      const row = rows.get(ids[i]);
      row.update(each, most, now);
      return row.node;
    });
    const isHeld = list.matches(':hover') || list.contains(document.activeElement);
    if (isHeld) list.append(...nodes.filter((each) => !list.contains(each)));
    else {
      for (const id of rows.keys()) if (!ids.includes(id)) rows.delete(id);
      if (nodes.length !== list.children.length || nodes.some((each, i) => each !== list.children[i])) {
        list.replaceChildren(...nodes);
      }
    }
    more.hidden = keys.length <= FEW;
    say(more, showsAll ? 'Show fewer' : 'Show all ' + keys.length);
    more.setAttribute('aria-expanded', String(showsAll));
  }

  more.addEventListener('click', () => {
    showsAll = !showsAll;
    update(shown);
  });
  return { node, update };
}

function makeCard(limit) {
  const id = 'limit-' + ++cardsMade;
  const badge = element('span', { class: 'badge' }, 'shadow: refuses nobody');
  const policy = element('p', { class: 'policy' });
  const rules = element('p', { class: 'quiet' });
  const admitted = makeFigure('admitted', 'Admitted');
  const refused = makeFigure('refused', 'Refused');
  const share = makeFigure('', 'Refused share');
  const plot = makePlot();
  const list = makeList(limit.name);
  const node = element('section', { class: 'limit', 'aria-labelledby': id },
    element('header', {},
      element('div', {},
        element('div', { class: 'title' }, element('h2', { id }, limit.name), badge), policy, rules),
      element('dl', { class: 'figures' }, admitted.node, refused.node, share.node)),
    plot.node, list.node);
  return { node, update(next, state) {
    const { counts } = next;
    const total = { admitted: sum(counts.admitted), refused: sum(counts.refused), elsewhere: sum(counts.elsewhere) };
    const all = total.admitted + total.refused + total.elsewhere;
    const refusedWord = next.shadow ? 'would be refused' : 'refused';
    badge.hidden = !next.shadow;
    say(policy, policyText(next));
    say(rules, rulesText(next, state.store));
    say(admitted.value, count(total.admitted));
    say(refused.name, next.shadow ? 'Would refuse' : 'Refused');
    say(refused.value, count(total.refused));
    say(share.name, next.shadow ? 'Share' : 'Refused share');
    say(share.value, all === 0 ? '–' : percent(total.refused / all));
    const others = total.elsewhere === 0 ? '' : ' · ' + count(total.elsewhere) + ' more refused by other limits';
    const span = 'the last ' + SPANS[state.range];
    plot.update({
      counts,
      stepMs: state.stepMs,
      fromMs: state.fromMs,
      sinceMs: state.process.sinceMs,
      words: {
        refused: refusedWord,
        caption: 'Requests per ' + STEP_NAMES[state.stepMs] + others,
        summary: next.name + ': ' + count(total.admitted) + ' admitted and ' + count(total.refused) + ' ' + refusedWord + ' in ' + span,
        none: all > 0 ? undefined : 'No decisions in ' + span + '. Send a request to a route behind this limit, and it shows here within seconds.',
      },
    });
    list.update({
      keys: next.refused,
      now: state.atMs,
      words: {
        heading: next.shadow ? 'Would be refused most' : 'Most refused',
        scope: (state.refusedOf === 'fleet' ? 'all processes' : 'this process') + ', 24 h',
        empty: next.shadow ? 'It would not have refused anybody yet.' : 'Nobody was refused yet. Keys stand here once this limit refuses them.',
      },
    });
  } };
}

function policyText({ policies, varies }) {
  const texts = policies.map(({ algorithm, numbers }) => algorithm + ': ' + numbers);
  if (!varies) return texts[0];
  if (texts.length === 0) return 'Each request brings its policy; none has been seen yet.';
  return 'By request: ' + texts.join(' · ');
}

/** A store in this process does not fail. */
function rulesText({ ban, whenStoreFails }, { shared }) {
  const bans = ban === undefined ? [] : ['Keys are ' + ban + '.'];
  const failing = shared ? ['When the store fails: ' + whenStoreFails + '.'] : [];
  return [...bans, ...failing].join(' ');
}

function showLimits(state) {
  const main = byId('limits');
  if (state.limits.length === 0) {
    if (cards.size > 0 || main.children.length === 0) {
      cards.clear();
      main.replaceChildren(element('div', { class: 'lone' },
        element('h2', {}, 'This gate has no limits yet'),
        element('p', { class: 'quiet' }, 'Give it limits: [{ name, policy }], or give a route its own, and they stand here.')));
    }
    return;
  }
  if (cards.size === 0) main.replaceChildren();
  for (const limit of state.limits) {
    if (!cards.has(limit.name)) {
      cards.set(limit.name, makeCard(limit));
      main.append(cards.get(limit.name).node);
    }
    cards.get(limit.name).update(limit, state);
  }
  const select = byId('lookup-limit');
  if (select.options.length !== state.limits.length) {
    const chosen = select.value;
    select.replaceChildren(...state.limits.map(({ name }) => element('option', { value: name }, name)));
    if (chosen !== '') select.value = chosen;
  }
}
`;
