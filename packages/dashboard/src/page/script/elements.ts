/** Making nodes and words. What comes from elsewhere only ever becomes text. */
export const ELEMENTS: string = String.raw`
const byId = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

const shape = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

/** Leaves alone what says that already, so that screen readers and selections are not disturbed. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** What would move text about, or hide in it, is written as an escape. */
const printable = (text) =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
    (character) => '\\u' + character.codePointAt(0).toString(16).padStart(4, '0'),
  );

const integer = new Intl.NumberFormat('en');
const count = (value) => integer.format(value);
const counted = (value, noun) => count(value) + ' ' + noun + (value === 1 ? '' : 's');

/** A share of 1; what is not nothing is never written as nothing, nor what is not all as all. */
function percent(share) {
  const written = (share * 100).toFixed(1);
  if (share > 0 && written === '0.0') return '< 0.1 %';
  if (share < 1 && written === '100.0') return '> 99.9 %';
  return (share === 0 ? '0' : written) + ' %';
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const calendar = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const time = (ms) => clock.format(ms);

/** A time, with its day where that is not today. */
function instant(ms) {
  const isToday = calendar.format(ms) === calendar.format(Date.now());
  return (isToday ? '' : calendar.format(ms) + ' ') + time(ms);
}

const UNITS = [[86400000, 'd'], [3600000, 'h'], [60000, 'min'], [1000, 's']];

/** A length of time in its two largest units, rounded up: 1 h 5 min. */
function length(ms) {
  if (ms < 1000) return count(Math.ceil(ms)) + ' ms';
  if (ms < 10000) return Number((Math.ceil(ms / 100) / 10).toFixed(1)) + ' s';
  const seconds = Math.ceil(ms / 1000) * 1000;
  const first = UNITS.findIndex(([size]) => seconds >= size);
  const [size, unit] = UNITS[first];
  const [smaller, name] = UNITS[first + 1] || [0, ''];
  const whole = Math.floor(seconds / size);
  const rest = smaller === 0 ? 0 : Math.floor((seconds - whole * size) / smaller);
  return count(whole) + ' ' + unit + (rest === 0 ? '' : ' ' + rest + ' ' + name);
}

/** How long ago, in its largest unit. */
function ago(ms) {
  const [size, unit] = UNITS.find(([each]) => ms >= each) || [1, ''];
  return unit === '' ? 'just now' : Math.floor(ms / size) + ' ' + unit + ' ago';
}

const sum = (values) => values.reduce((total, each) => total + each, 0);
`;
