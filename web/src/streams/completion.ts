// Completion of a search by the gateway: what fits at the cursor, and whether the search can be read. The gateway counts
// characters; the browser counts an emoji twice.
import { askJson } from "../api/client.ts";

export interface Option {
  text: string;
  about: string;
}

export interface QueryProblem {
  message: string;
  position: number;
  length: number;
}

export interface Completion {
  /** An option replaces the characters from `start` to `end`. */
  start: number;
  end: number;
  options: Option[];
  error: QueryProblem | null;
}

export function askCompletion(q: string, at: number, signal: AbortSignal): Promise<Completion> {
  const place = String(charactersOf(q.slice(0, at)).length);
  return askJson<Completion>(`/inspector/complete?${new URLSearchParams({ q, at: place })}`, { signal });
}

/** The characters of a text, as the gateway counts them. */
export function charactersOf(text: string): string[] {
  return [...text];
}

/** The text with an option in it, and where the cursor is then. A field's name is followed by its value, a value by a space. */
export function applyOption(text: string, { start, end }: Completion, option: Option): { text: string; at: number } {
  const isField = /[:>]$/.test(option.text);
  const characters = charactersOf(text);
  const before = characters.slice(0, start).join("") + option.text;
  const rest = characters.slice(end).join("");
  const space = isField || rest.startsWith(" ") || rest.startsWith(",") ? "" : " ";
  return { text: before + space + rest, at: before.length + (isField ? 0 : 1) };
}
