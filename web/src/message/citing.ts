// Puts marks into Markdown where citations begin and end, and reads them back out of text that is being drawn.
// The marks are punctuation that hardly anyone writes: punctuation, so that emphasis beside them stays emphasis.
import type { Cited, TextPart } from "./parts.ts";

const BEGIN = ["⸨", "⸩"] as const;
const END = ["⸢", "⸣"] as const;
const ANY_MARK = /[⸨⸩⸢⸣]/;
const MARK = /⸨(\d+)⸩|⸢(\d+)⸣/g;
const BLOCK = /(?:[ \t>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+|#{1,6}[ \t]+|\|[ \t]*)?)*/y;
const FENCED = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[^\n]*\n[\s\S]*?(?:^ {0,3}\1[`~]*[ \t]*$|$(?![\s\S]))/gm;
const MOST = 2000;
const WORK = 50_000_000; // sources × characters

interface Place {
  at: number;
  mark: string;
  begins: boolean;
}

export interface Marked {
  text: string;
  /** Whether there are marks in it: a model may have written such signs itself. */
  marked: boolean;
}

/** The text of neighbouring parts, which one reads as one, with marks for what is cited in it. */
export function markedText(parts: readonly TextPart[], sources: readonly Cited[]): Marked {
  const text = parts.map((part) => part.text).join("");
  const here = sources.filter((source) => parts.some((part) => part.index === source.of));
  if (here.length === 0 || here.length > MOST || here.length * text.length > WORK || ANY_MARK.test(text)) {
    return { text, marked: false };
  }
  const fences = [...text.matchAll(FENCED)].map((found) => [found.index, found.index + found[0].length] as const);
  const places = here.flatMap((source) => placesOf(source, parts)).map((place) => settle(text, place));
  const free = places.filter(({ at }) => !fences.some(([from, to]) => at > from && at < to));
  return { text: insert(text, free), marked: true };
}

function placesOf(source: Cited, parts: readonly TextPart[]): Place[] {
  let offset = 0;
  for (const part of parts) {
    if (part.index === source.of) return inPart(source, part.text, offset, parts.length > 1);
    offset += part.text.length;
  }
  return [];
}

function inPart(source: Cited, text: string, offset: number, several: boolean): Place[] {
  const end = (at: number) => ({ at, mark: `${END[0]}${source.number}${END[1]}`, begins: false });
  const begin = (at: number) => ({ at, mark: `${BEGIN[0]}${source.number}${BEGIN[1]}`, begins: true });
  if (source.span) {
    const [from, to] = source.span.map((point) => offset + units(text, point)) as [number, number];
    return to > from ? [begin(from), end(to)] : [end(to)];
  }
  const last = end(offset + text.trimEnd().length);
  return several && text.trim() ? [begin(offset + text.length - text.trimStart().length), last] : [last];
}

/** A place at the beginning of a line moves behind what makes the line a list, a heading or a quote. */
function settle(text: string, place: Place): Place {
  if (!place.begins || (place.at > 0 && text[place.at - 1] !== "\n")) return place;
  BLOCK.lastIndex = place.at;
  BLOCK.exec(text);
  return { ...place, at: Math.max(place.at, BLOCK.lastIndex) };
}

function insert(text: string, places: Place[]): string {
  const order = places.map((place, rank) => ({ ...place, rank }));
  order.sort((a, b) => a.at - b.at || Number(a.begins) - Number(b.begins) || a.rank - b.rank);
  const pieces: string[] = [];
  let done = 0;
  for (const { at, mark } of order) {
    pieces.push(text.slice(done, at), mark);
    done = at;
  }
  pieces.push(text.slice(done));
  return pieces.join("");
}

/** Where a code point stands in UTF-16; beyond the end is the end. */
function units(text: string, points: number): number {
  let at = 0;
  for (let left = points; left > 0 && at < text.length; left--) {
    const code = text.codePointAt(at) ?? 0;
    at += code > 0xffff ? 2 : 1;
  }
  return at;
}

export type Piece = string | { begins: number } | { ends: number };

/** Text that is being drawn → words and marks. */
export function pieces(text: string): Piece[] {
  if (!ANY_MARK.test(text)) return [text];
  const found: Piece[] = [];
  let done = 0;
  for (const mark of text.matchAll(MARK)) {
    if (mark.index > done) found.push(text.slice(done, mark.index));
    found.push(mark[1] === undefined ? { ends: Number(mark[2]) } : { begins: Number(mark[1]) });
    done = mark.index + mark[0].length;
  }
  if (done < text.length) found.push(text.slice(done));
  return found;
}

/** Text without marks: for code, addresses, titles. */
export function unmarked(text: string): string {
  return ANY_MARK.test(text) ? text.replace(MARK, "") : text;
}
