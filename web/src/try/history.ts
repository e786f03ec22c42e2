// What was said so far, as messages of a Chat request: texts, images, calls and their results. Pure.
import type { Event } from "../api/types.ts";
import { foldMessage } from "../message/fold.ts";
import type { ChatMessage } from "./settings.ts";

export interface ToolResult {
  id: string;
  name: string;
  text: string;
}

/** What one exchange says: the person's message, and the events of the answer. */
export interface Said {
  said: string;
  /** data: addresses of images. */
  images: string[];
  /** Results of the calls of the answer before. */
  results: ToolResult[];
  events: Event[];
}

/** An exchange and how it stands. */
export interface Ending extends Said {
  state: "sending" | "streaming" | "done" | "stopped" | "failed";
  /** Milliseconds in all; null until all events are known. */
  took: number | null;
}

interface Call {
  id: string;
  name: string;
  json: string;
}

/** The calls of an answer that the client must run. */
export function openCalls(events: readonly Event[]): Call[] {
  const parts = foldMessage(events).flatMap((message) => message.parts);
  return parts.flatMap((part) => {
    const open = part.kind === "call" && part.choice === 0 && part.by === "client" && part.state === "whole";
    return open && !part.result ? [{ id: part.id, name: part.name, json: part.json }] : [];
  });
}

function textOf(events: readonly Event[]): string {
  const parts = foldMessage(events).flatMap((message) => message.parts);
  return parts.map((part) => (part.kind === "text" && part.choice === 0 ? part.text : "")).join("");
}

/** The person's side of an exchange. */
export function askedMessages({ said, images, results }: Omit<Said, "events">): ChatMessage[] {
  const messages: ChatMessage[] = results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text }));
  if (images.length) {
    const shown = images.map((url) => ({ type: "image_url", image_url: { url } }));
    messages.push({ role: "user", content: [...(said ? [{ type: "text", text: said }] : []), ...shown] });
  } else if (said) messages.push({ role: "user", content: said });
  return messages;
}

/** Whether an exchange is over and its answer has neither text nor calls that can be answered. */
function isEmpty({ state, took, events }: Ending): boolean {
  const over = state === "failed" || state === "stopped" || took !== null;
  return over && !textOf(events) && (state !== "done" || openCalls(events).length === 0);
}

/** Whether a message got no answer, so that it must be sent again. */
export function isUnanswered(exchange: Ending): boolean {
  return isEmpty(exchange) && (exchange.state !== "done" || exchange.events.some(({ type }) => type === "fault"));
}

/** Whether the messages of an opened turn can be sent as they are: no exchange so far was answered. */
export function canContinue(opened: boolean, exchanges: readonly Ending[]): boolean {
  return opened && exchanges.every(isUnanswered);
}

/** The calls that the next message can answer: those of the last exchange that is not empty. */
export function callsToAnswer(exchanges: readonly Ending[]): Call[] {
  const last = exchanges.findLast((exchange) => !isEmpty(exchange));
  return last?.state === "done" ? openCalls(last.events) : [];
}

/** All messages before the next one. An exchange without an answer is left out, and calls without a result too. */
export function spokenMessages(exchanges: readonly Said[], next: readonly ToolResult[]): ChatMessage[] {
  const spoken: ChatMessage[] = [];
  let results = next; // of the next message that is sent along
  for (const exchange of exchanges.toReversed()) {
    const answered = new Set(results.map(({ id }) => id));
    const calls = openCalls(exchange.events).filter(({ id }) => answered.has(id));
    const text = textOf(exchange.events);
    if (!text && calls.length === 0) continue;
    results = exchange.results;
    const answer: ChatMessage = { role: "assistant", content: text || null };
    if (calls.length) {
      answer.tool_calls = calls.map(({ id, name, json }) => ({
        id,
        type: "function",
        function: { name, arguments: json || "{}" },
      }));
    }
    spoken.unshift(...askedMessages(exchange), answer);
  }
  return spoken;
}
