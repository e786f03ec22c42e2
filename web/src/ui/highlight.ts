// What is marked in a text because it was searched for. Pure.

export interface Highlight {
  /** Any of these is marked. */
  needles: readonly string[];
  matchCase: boolean;
}

export interface Piece {
  text: string;
  hit: boolean;
}

/** More places of one text are not marked. */
export const MOST_MARKS = 1000;

/** What is searched for, as it is and as JSON writes it in a string. */
export function highlightText(text: string, matchCase: boolean): Highlight {
  return { needles: [...new Set([text, JSON.stringify(text).slice(1, -1)])].filter(Boolean), matchCase };
}

/** Where the first mark begins; -1 for none. */
export function firstHit(text: string, highlight: Highlight | undefined): number {
  return highlight ? nextHit(foldCase(text, highlight), foldedNeedles(highlight), 0).start : -1;
}

/** The text in pieces. */
export function splitHits(text: string, highlight: Highlight | undefined): Piece[] {
  if (!highlight) return [{ text, hit: false }];
  const [folded, needles] = [foldCase(text, highlight), foldedNeedles(highlight)];
  const pieces: Piece[] = [];
  let at = 0;
  for (let found = nextHit(folded, needles, 0); found.start >= 0; found = nextHit(folded, needles, at)) {
    if (found.start > at) pieces.push({ text: text.slice(at, found.start), hit: false });
    pieces.push({ text: text.slice(found.start, found.end), hit: true });
    at = found.end;
    if (pieces.length >= 2 * MOST_MARKS) break;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), hit: false });
  return pieces;
}

/** The first place of any needle; of two at the same place the longer one. */
function nextHit(text: string, needles: readonly string[], from: number): { start: number; end: number } {
  let [start, end] = [-1, -1];
  for (const needle of needles) {
    const at = text.indexOf(needle, from);
    const better = at >= 0 && (start < 0 || at < start || (at === start && at + needle.length > end));
    if (better) [start, end] = [at, at + needle.length];
  }
  return { start, end };
}

/** A few letters have another length in lower case: such a text is compared as it is. */
function foldCase(text: string, { matchCase }: Highlight): string {
  const folded = matchCase ? text : text.toLowerCase();
  return folded.length === text.length ? folded : text;
}

function foldedNeedles({ needles, matchCase }: Highlight): string[] {
  return needles.map((needle) => (matchCase ? needle : needle.toLowerCase()));
}
