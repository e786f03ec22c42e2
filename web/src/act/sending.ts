// A request that is edited and sent again: where it came from, what it says now, and where it goes.
import { signal } from "@preact/signals";
import { askJson, explain } from "../api/client.ts";
import { key } from "../api/key.ts";
import type { Row, Trace } from "../api/types.ts";
import { compareAddress } from "../compare/address.ts";
import { describeRefusal } from "../try/refusals.ts";
import { indentJson, setJsonValue } from "../ui/jsonText.ts";
import { headersFor, type MeaningHeaders } from "./headers.ts";
import { convertRequest, convertText } from "./protocols.ts";
import { explainUnsendable } from "./unsendable.ts";

export interface Draft {
  id: string;
  row: Row;
  /** As it was sent. */
  original: { protocol: string; text: string; headers: MeaningHeaders };
  protocol: string;
  model: string;
  /** Whether the answer is streamed. A body that says it itself (`stream`) counts instead. */
  stream: boolean;
  text: string;
  /** The text that the gateway made of the original for `protocol`; "" if it is the original. */
  converted: string;
  notes: string[];
  state: "editing" | "converting" | "sending";
  error: string;
  /** The turn of an attempt that was refused. */
  refused: string;
}

export const draft = signal<Draft | null>(null);
export const draftError = signal("");

const SECRET_MARK = "[secret]";
const STREAMS_IF_ASKED = new Set(["openai-chat", "responses", "anthropic", "completions"]); // by the body

function change(id: string, fields: Partial<Draft>): void {
  if (draft.value?.id === id) draft.value = { ...draft.value, ...fields };
}

let loads = 0; // the calls of openDraft: only the answers of the newest one count

/** Loads the request of a turn, unless it is being edited already. */
export async function openDraft(id: string): Promise<void> {
  const number = ++loads;
  if (draft.value?.id === id) return;
  draft.value = null;
  draftError.value = "";
  try {
    const trace = await askJson<Trace>(`/inspector/turns/${encodeURIComponent(id)}`);
    if (loads !== number) return;
    const { request, row } = trace;
    const lost = explainUnsendable(trace);
    if (lost || !row) {
      draftError.value = lost || "The turn has no row.";
      return;
    }
    const headers = await askJson<MeaningHeaders>(`/inspector/turns/${encodeURIComponent(id)}/headers`);
    if (loads !== number) return;
    const text = indentJson(request);
    const original = { protocol: row.protocol, text, headers };
    const fresh = { converted: "", notes: [], state: "editing", error: "", refused: "" } as const;
    const { protocol, asked: model, stream } = row;
    draft.value = { ...fresh, id, row, original, protocol, model, stream, text, notes: [] };
  } catch (error) {
    if (loads === number) draftError.value = explain(error);
  }
}

export function holdsMark(text: string): boolean {
  return text.includes(SECRET_MARK);
}

export function editText(text: string): void {
  if (draft.value) change(draft.value.id, { text });
}

export function chooseModel(model: string): void {
  const now = draft.value;
  if (!now) return;
  const text = now.protocol === "gemini" ? now.text : setJsonValue(now.text, "model", model);
  change(now.id, { model, text });
}

export function restoreOriginal(): void {
  const now = draft.value;
  if (!now) return;
  const { protocol, text } = now.original;
  const { asked: model, stream } = now.row;
  change(now.id, { protocol, text, model, stream, converted: "", notes: [], error: "" });
}

/** Writes the request in another protocol. */
export async function chooseProtocol(protocol: string): Promise<void> {
  const now = draft.value;
  if (!now || protocol === now.protocol) return;
  if (protocol === now.original.protocol && now.text === now.converted) return restoreOriginal();
  change(now.id, { state: "converting", error: "" });
  const converting = draft.value;
  try {
    const stream = isStreamed(now);
    const options = { from: now.protocol, to: protocol, model: now.model, stream };
    const { text, notes } = await convertText(now.text, options);
    if (draft.value !== converting) return keepEdited(now.id);
    change(now.id, { protocol, stream, text, converted: text, notes, state: "editing" });
  } catch (error) {
    if (draft.value?.state === "converting") change(now.id, { error: explain(error), state: "editing" });
  }
}

/** The request was edited while the gateway converted it: the late answer must not replace what was written. */
function keepEdited(id: string): void {
  if (draft.value?.state !== "converting") return;
  const error = "The protocol was not changed: the request was edited meanwhile. Choose the protocol again.";
  change(id, { state: "editing", error });
}

/** Whether the answer of a draft is streamed: some protocols say it in the body, others elsewhere or always. */
export function isStreamed({ protocol, text, stream }: Pick<Draft, "protocol" | "text" | "stream">): boolean {
  try {
    const said = (JSON.parse(text) as { stream?: unknown }).stream;
    return typeof said === "boolean" ? said : stream && !STREAMS_IF_ASKED.has(protocol);
  } catch {
    return stream; // the gateway says what is wrong with the body
  }
}

/** The headers of the original that are sent too, and the names of those that are left out. */
export function draftHeaders({ protocol, original }: Draft): ReturnType<typeof headersFor> {
  return headersFor(original.headers, protocol === original.protocol);
}

/** Where the request goes, with which headers: as the client sent it, or where its protocol is served. */
async function target(now: Draft): Promise<[string, Record<string, string>]> {
  const { protocol, model, row, original, text } = now;
  const more = protocol === "gemini" ? { stream: now.stream } : {}; // its path says it
  const made = await convertRequest(text, { from: protocol, to: protocol, model, ...more });
  const headers = { ...made.headers, ...draftHeaders(now).sent };
  const own = protocol === original.protocol && protocol !== "gemini";
  return [own ? row.route : made.path, headers];
}

/** Sends the request. The new turn opens beside the old one as soon as its answer begins, if one still waits for it. */
export async function sendDraft(): Promise<void> {
  const now = draft.value;
  if (now?.state !== "editing") return;
  change(now.id, { state: "sending", error: "", refused: "" });
  const here = location.hash;
  try {
    const [path, headers] = await target(now);
    if (key.value) headers.authorization = `Bearer ${key.value}`;
    const response = await fetch(path, { method: "POST", headers, body: now.text });
    const id = response.headers.get("x-request-id") ?? "";
    if (!response.ok) {
      const error = describeRefusal(response.status, await response.text());
      change(now.id, { state: "editing", error, refused: id });
      return;
    }
    void drain(response);
    change(now.id, { state: "editing" });
    if (id && location.hash === here) location.hash = compareAddress(now.id, id);
  } catch (error) {
    change(now.id, { state: "editing", error: explain(error) });
  }
}

/** Reads the answer to its end: a client that leaves would end the turn. */
async function drain(response: Response): Promise<void> {
  try {
    await response.body?.pipeTo(new WritableStream());
  } catch {
    // the turn itself tells what happened
  }
}
