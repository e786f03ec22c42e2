// What an event is, in a colour and one line. Pure; knows the canonical events by their type only.

import type { Event } from "../api/types.ts";
import { formatMany } from "../ui/format.ts";
import { GLANCE, glance } from "./glance.ts";

export const KINDS = ["text", "reasoning", "call", "result", "source", "file", "refusal", "fault", "other"] as const;
export type Kind = (typeof KINDS)[number];

/** By the first word of an event's type. */
const FAMILIES = new Map<string, Kind>([...KINDS.map((kind): [string, Kind] => [kind, kind]), ["ask", "call"]]);

export function kindOf(type: string): Kind {
  return FAMILIES.get(type.split("-", 1)[0] ?? "") ?? "other";
}

function word(body: Record<string, unknown>, name: string): string {
  const value = body[name];
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function joined(...words: string[]): string {
  return words.filter(Boolean).join(" ");
}

function tokens(body: Record<string, unknown>): string {
  return ["input", "cached", "written", "output", "reasoning"]
    .filter((name) => body[name] != null)
    .map((name) => `${name} ${body[name]}`)
    .join(" · ");
}

type Describe = (body: Record<string, unknown>) => string;
const delta: Describe = (body) => quoted(word(body, "text"));
const ended: Describe = (body) => (body.extra ? `extra ${word(body, "extra")}` : "");
const called: Describe = (body) => joined(word(body, "name"), word(body, "json"));

const LINES: Record<string, Describe> = {
  start: (body) => joined(word(body, "model"), word(body, "id")),
  step: (body) => word(body, "number"),
  "text-delta": delta,
  "text-end": ended,
  "refusal-delta": delta,
  "reasoning-start": (body) => word(body, "form"),
  "reasoning-delta": delta,
  "reasoning-end": ended,
  "call-start": (body) => joined(word(body, "name"), word(body, "id"), body.by ? `by ${word(body, "by")}` : ""),
  "call-delta": (body) => word(body, "json"),
  "call-end": called,
  "call-cut": called,
  result: (body) => joined(body.failed ? "failed" : "", called(body)),
  ask: (body) => joined(word(body, "call"), word(body, "id")),
  "file-start": (body) => joined(word(body, "media"), word(body, "url")),
  "file-delta": (body) => `${formatMany(word(body, "data").length, "character")} of base64`,
  source: (body) => joined(word(body, "title"), word(body, "url")),
  opaque: (body) => joined(word(body, "protocol"), word(body, "kind")),
  data: called,
  usage: tokens,
  finish: (body) => joined(word(body, "reason"), body.raw ? `(${word(body, "raw")})` : ""),
  fault: (body) => joined(word(body, "kind"), word(body, "message")),
  unknown: (body) => joined(word(body, "protocol"), word(body, "name"), word(body, "data")),
};

function quoted(text: string): string {
  return `“${text.slice(0, GLANCE)}”`;
}

/** What an event holds beside its type and its part, as JSON. */
const rest: Describe = ({ type: _, index: __, ...body }) => (Object.keys(body).length ? JSON.stringify(body) : "");

/** One line about an event; not its type, which stands beside it. */
export function lineOf(event: Event): string {
  const describe = (Object.hasOwn(LINES, event.type) && LINES[event.type]) || rest;
  return glance(describe(event.body));
}

/** The number of the part an event belongs to, null if to none. */
export function partOf(event: Event): number | null {
  return typeof event.body.index === "number" ? event.body.index : null;
}
