// What a text is made of: the counts that the gateway's factors are multiplied with. The same counts as
// penstock.tokens.families, name by name, in one pass over the UTF-16 units; a test holds the two together.

export const NAMES = [
  "words", "humps", "fives", "nines", "digits", "numbers", "marks", "clusters", "gaps", "tabs", "lines", "breaks",
  "capitals", "latin", "greek", "cyrillic", "semitic", "indic", "symbols", "kana", "han", "hangul", "wide", "astral",
] as const; // biome-ignore format: one table, read by column

// Classes of characters. Letters of any script that writes words with spaces are letters, too.
const LOWER = 0, UPPER = 1, DIGIT = 2, SPACE = 3, TAB = 4, BREAK = 5, MARK = 6; // biome-ignore format: as above
const SCRIPT = 7; // and up, in the order of NAMES from "latin"
const FIRST_SCRIPT = 13;
const LETTERS = 4; // latin, greek, cyrillic, semitic

// The first code point beyond each script: the borders are those of UTF-8's first byte.
const BORDERS = [0x380, 0x400, 0x580, 0x800, 0x2000, 0x3000, 0x4000, 0xa000, 0xe000, 0x10000];

const ASCII = new Uint8Array(128).fill(MARK);
for (let code = 0x61; code <= 0x7a; code++) ASCII[code] = LOWER;
for (let code = 0x41; code <= 0x5a; code++) ASCII[code] = UPPER;
for (let code = 0x30; code <= 0x39; code++) ASCII[code] = DIGIT;
ASCII[0x20] = SPACE;
ASCII[0x09] = TAB;
ASCII[0x0a] = ASCII[0x0d] = BREAK;

function scriptOf(code: number): number {
  let script = 0;
  while (script < BORDERS.length && code >= (BORDERS[script] ?? 0)) script++;
  return SCRIPT + script;
}

const ASTRAL = SCRIPT + BORDERS.length;
const isLetter = (sort: number) => sort <= UPPER || (sort >= SCRIPT && sort < SCRIPT + LETTERS);

/** The class of the character at a place, and how many units it takes. */
function sortAt(text: string, at: number): readonly [sort: number, units: number] {
  const unit = text.charCodeAt(at);
  if (unit < 128) return [ASCII[unit] ?? MARK, 1];
  const pair = unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
  return pair ? [ASTRAL, 2] : [scriptOf(unit), 1];
}

// Where the counts of a class stand: of each character, and of each run of them.
const EACH: Readonly<Record<number, readonly [each: number, run: number]>> = {
  [DIGIT]: [4, 5],
  [MARK]: [6, 7],
  [BREAK]: [10, 11],
};

class Walk {
  readonly found = new Float64Array(NAMES.length);
  #last = SPACE; // what begins the text begins a run, as after a space
  #letters = 0; // length of the run so far
  #capitals = 0;
  #spaces = -1; // a gap is two spaces or more after something: none begins the text

  step(sort: number): void {
    this.#word(sort);
    this.#capital(sort);
    this.#gap(sort);
    const row = EACH[sort];
    if (row) {
      this.#add(row[0]);
      if (this.#last !== sort) this.#add(row[1]);
    } else if (sort === TAB) this.#add(9);
    else if (sort >= SCRIPT) this.#add(FIRST_SCRIPT + sort - SCRIPT);
    this.#last = sort;
  }

  #word(sort: number): void {
    this.#letters = isLetter(sort) ? this.#letters + 1 : 0;
    if (this.#letters === 1) this.#add(0);
    if (this.#letters && this.#letters % 5 === 0) this.#add(2);
    if (this.#letters && this.#letters % 9 === 0) this.#add(3);
  }

  #capital(sort: number): void {
    this.#capitals = sort === UPPER ? this.#capitals + 1 : 0;
    if (sort === UPPER && this.#last === LOWER) this.#add(1);
    if (this.#capitals && this.#capitals % 2 === 0) this.#add(12);
  }

  #gap(sort: number): void {
    if (sort !== SPACE) this.#spaces = 0;
    else if (this.#spaces >= 0) this.#spaces++;
    if (this.#spaces === 2) this.#add(8);
  }

  #add(place: number): void {
    this.found[place] = (this.found[place] ?? 0) + 1;
  }
}

/** The counts in the order of NAMES. */
export function counts(text: string): Float64Array {
  const walk = new Walk();
  for (let at = 0; at < text.length; ) {
    const [sort, units] = sortAt(text, at);
    walk.step(sort);
    at += units;
  }
  return walk.found;
}
