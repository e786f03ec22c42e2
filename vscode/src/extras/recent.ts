// The last requests of this window, so that each can be looked at in the inspector.

import type { Address } from "../gateway/http.ts";

export interface RecentRequest {
  /** The gateway's id of the request. */
  readonly id: string;
  /** The model's name, for people. */
  readonly model: string;
  /** The first words of what was asked. */
  readonly question: string;
  readonly time: number;
  /** Of the gateway that was asked. */
  readonly address: Address;
}

const MOST = 10;
const WORDS = 80;

export class RecentRequests {
  readonly #rows: RecentRequest[] = [];

  add(row: RecentRequest): void {
    this.#rows.unshift(row);
    this.#rows.length = Math.min(this.#rows.length, MOST);
  }

  /** The newest first. */
  get rows(): readonly RecentRequest[] {
    return this.#rows;
  }
}

/** The first words of the last message of a person. VS Code wraps what a person wrote, and puts context before it. */
export function questionOf(
  messages: readonly { readonly role: number; readonly content: readonly unknown[] }[],
): string {
  const last = messages.findLast(({ role, content }) => role === 1 && content.some(isText));
  const text = (last?.content ?? []).filter(isText).at(-1)?.value ?? "";
  const [, after] = splitOnce(text, "<userRequest>");
  const own = after?.includes("</userRequest>") ? splitOnce(after, "</userRequest>")[0] : text;
  const line = own.replace(/\s+/g, " ").trim();
  return line.length > WORDS ? `${line.slice(0, WORDS)}…` : line;
}

/** What stands before the first mark, and what after it; undefined: there is no such mark. */
function splitOnce(text: string, mark: string): [string, string | undefined] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + mark.length)];
}

const isText = (part: unknown): part is { readonly value: string } => {
  const row = part as { readonly value?: unknown; readonly callId?: unknown } | null;
  return typeof row?.value === "string" && row.callId === undefined;
};
