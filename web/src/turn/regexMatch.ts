// Matches texts with a regular expression. Runs in a worker: an expression may take for ever. Pure.
import { MOST_PLACES, type Span } from "./find.ts";

export interface RegexRequest {
  id: number;
  pattern: string;
  matchCase: boolean;
  /** Each is looked at once. */
  texts: string[];
  /** In each, every place is found. */
  parts: string[];
}

export interface RegexAnswer {
  id: number;
  /** What was found in each text, null for nothing. */
  found: (string | null)[];
  places: Span[][];
}

/** Longer matches are cut: they are only shown in a row. */
const LONGEST = 300;

export function compileRegex(pattern: string, matchCase: boolean): RegExp {
  return new RegExp(pattern, matchCase ? "gmu" : "gimu");
}

export function answerRegex({ id, pattern, matchCase, texts, parts }: RegexRequest): RegexAnswer {
  const regex = compileRegex(pattern, matchCase);
  const found = texts.map((text) => {
    regex.lastIndex = 0;
    return regex.exec(text)?.[0]?.slice(0, LONGEST) ?? null;
  });
  return { id, found, places: parts.map((text) => placesIn(regex, text)) };
}

function placesIn(regex: RegExp, text: string): Span[] {
  const found: Span[] = [];
  regex.lastIndex = 0;
  for (const match of text.matchAll(regex)) {
    if (match[0]) found.push({ start: match.index, end: match.index + match[0].length });
    if (found.length >= MOST_PLACES) break;
  }
  return found;
}
