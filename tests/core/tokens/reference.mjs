// The client's side of docs/tokens.md: counts texts and messages from exported factors, and nothing else of penstock.
// Reads {"factors": …, "texts": […], "messages": [{"texts": […], "json": […], "calls": n, "results": n}]}, writes the counts.

const CLASSES = [
  [0x61, 0x7a, "a"], [0x41, 0x5a, "A"], [0x30, 0x39, "0"], [0x20, 0x20, " "], [0x09, 0x09, "\t"], [0x0a, 0x0a, "\n"],
  [0x0d, 0x0d, "\n"], [0x80, 0x37f, "l"], [0x380, 0x3ff, "g"], [0x400, 0x57f, "y"], [0x580, 0x7ff, "h"],
  [0x800, 0x1fff, "i"], [0x2000, 0x2fff, "s"], [0x3000, 0x3fff, "k"], [0x4000, 0x9fff, "C"], [0xa000, 0xdfff, "H"],
  [0xe000, 0xffff, "f"], [0x10000, 0x10ffff, "e"],
];
const SCRIPTS = {
  latin: "l", greek: "g", cyrillic: "y", semitic: "h", indic: "i", symbols: "s", kana: "k", han: "C", hangul: "H",
  wide: "f", astral: "e",
};

function classOf(point) {
  for (const [first, last, code] of CLASSES) if (point >= first && point <= last) return code;
  return ".";
}

function counts(text) {
  let seen = "";
  for (const char of text) seen += classOf(char.codePointAt(0));
  const number = (pattern) => (seen.match(pattern) ?? []).length;
  const runs = (pattern, size) => {
    let found = 0;
    for (const run of seen.match(pattern) ?? []) found += Math.floor(run.length / size);
    return found;
  };
  const letters = /[aAlgyh]+/g;
  const found = {
    words: number(letters), humps: number(/aA/g), fives: runs(letters, 5), nines: runs(letters, 9),
    digits: number(/0/g), numbers: number(/0+/g), marks: number(/\./g), clusters: number(/\.+/g),
    gaps: number(/(?<=[^ ]) {2,}/g), tabs: number(/\t/g), lines: number(/\n/g), breaks: number(/\n+/g),
    capitals: runs(/A+/g, 2),
  };
  for (const [name, code] of Object.entries(SCRIPTS)) found[name] = seen.split(code).length - 1;
  return found;
}

function weigh(text, weights) {
  let total = 0;
  for (const [name, count] of Object.entries(counts(text))) total += count * weights[name];
  return total;
}

const STRING = /"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?/gs;

function held(json, rendering) {
  if (rendering === "words") json = [...json.matchAll(STRING)].map((found) => found[1]).join(" ");
  else if (rendering === "declared") json = json.replace(STRING, (_, text, key) => (key ? `${text}:` : ` " ${text} " `));
  else return json;
  return json.replaceAll("\\n", "\n").replaceAll("\\t", "\t").replaceAll('\\"', '"');
}

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { factors, texts, messages } = JSON.parse(input);
const { weights, constants, factor } = factors;
const text = (given) => weigh(given, weights) * constants.text;
const message = (given) =>
  constants.message + given.calls * constants.call + given.results * constants.result +
  given.texts.reduce((sum, one) => sum + text(one), 0) +
  given.json.reduce((sum, one) => sum + text(held(one, factors.rendering)), 0);
console.log(JSON.stringify({
  texts: texts.map((one) => Math.round(text(one) * factor)),
  messages: messages.map((one) => Math.round(message(one) * factor)),
}));
