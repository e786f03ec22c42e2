// Completion of a search by the gateway: what fits at the cursor, and whether the search can be read.
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
  return askJson<Completion>(`/inspector/complete?${new URLSearchParams({ q, at: String(at) })}`, { signal });
}

/** The text with an option in it, and where the cursor is then. A field's name is followed by its value, a value by a space. */
export function applyOption(text: string, { start, end }: Completion, option: Option): { text: string; at: number } {
  const isField = /[:>]$/.test(option.text);
  const rest = text.slice(end);
  const space = isField || rest.startsWith(" ") || rest.startsWith(",") ? "" : " ";
  return {
    text: text.slice(0, start) + option.text + space + rest,
    at: start + option.text.length + (isField ? 0 : 1),
  };
}
