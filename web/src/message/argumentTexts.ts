// Texts of several lines among the arguments of a call: JSON escapes their line ends, and nobody can read them. Pure.
import { tokensOf } from "../ui/json.ts";

export interface LiftedTexts {
  /** The arguments without those texts, as they were written; empty if nothing else is there. */
  rest: string;
  /** Each text with the name of its field. */
  texts: [field: string, text: string][];
}

/** Longer arguments are shown as they are. */
const LONGEST = 256 * 1024;
const LINE_END = /\\[nr]/;

/** Lifts texts of several lines out of the fields of an object. What is not whole yet, or no object, stays as it is. */
export function liftTexts(json: string): LiftedTexts {
  const none = { rest: json, texts: [] };
  if (json.length > LONGEST || !LINE_END.test(json) || !isObject(json)) return none;
  const rest: string[] = [];
  const texts: LiftedTexts["texts"] = [];
  for (const [name = "", colon, value = "", ...more] of fieldsOf(tokensOf(json) ?? [])) {
    if (value[0] === '"' && more.length === 0 && LINE_END.test(value)) texts.push([read(name), read(value)]);
    else rest.push([name, colon, value, ...more].join(""));
  }
  if (!texts.length) return none;
  return { rest: rest.length ? `{${rest.join(",")}}` : "", texts };
}

function isObject(json: string): boolean {
  try {
    return json.trimStart()[0] === "{" && typeof JSON.parse(json) === "object";
  } catch {
    return false; // it is still being written, or cut
  }
}

function read(token: string): string {
  return String(JSON.parse(token)).replace(/\r\n?/g, "\n");
}

/** The tokens of each field: its name, a colon, its value. */
function fieldsOf(tokens: readonly string[]): string[][] {
  const fields: string[][] = [[]];
  let depth = 0;
  for (const token of tokens.slice(1, -1)) {
    if (token === "," && depth === 0) {
      fields.push([]);
      continue;
    }
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    fields.at(-1)?.push(token);
  }
  return fields;
}
