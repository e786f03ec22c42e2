// What an answer says, in texts that can be compared: its words, its reasoning, its calls. Pure.
import type { Event, Trace } from "../api/types.ts";
import { foldMessage } from "../message/fold.ts";
import { indentJson } from "../ui/jsonText.ts";

export interface Answer {
  text: string[];
  reasoning: string[];
  calls: string[];
}

export function readAnswer(events: readonly Event[]): Answer {
  const parts = foldMessage(events).flatMap((message) => message.parts);
  const text = parts.map((part) => (part.kind === "text" || part.kind === "refusal" ? part.text : "")).join("");
  const reasoning = parts.map((part) => (part.kind === "reasoning" ? part.text : "")).join("\n");
  const calls = parts.flatMap((part) =>
    part.kind === "call" ? [`${part.name}:`, ...indentJson(part.json).split("\n")] : [],
  );
  return { text: linesOf(text), reasoning: linesOf(reasoning), calls };
}

/** Why the answer of a turn is not known; "" if it is, also if it said nothing. */
export function missingAnswer({ lost = "" }: Pick<Trace, "lost">, { text, reasoning, calls }: Answer): string {
  return text.length + reasoning.length + calls.length > 0 ? "" : lost;
}

function linesOf(text: string): string[] {
  return text.trim() ? text.trim().split("\n") : [];
}
