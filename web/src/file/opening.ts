// The files that are looked at, one at a time: their bytes stay in the page, and the gateway is asked what they mean.
// They stay open while one goes elsewhere in the page, and when the tab is reloaded.
import { effect, signal } from "@preact/signals";
import { about } from "../api/about.ts";
import { ask, askJson, askText, explain } from "../api/client.ts";
import type { Breakdown, Trace } from "../api/types.ts";
import { go } from "../router.ts";
import { formatBytes } from "../ui/format.ts";
import { forgetValue, keepValue, readValue } from "../ui/tabStore.ts";
import { readHar } from "./har.ts";

/** `alone`: the one file that `penstock inspect --web` shows. */
export type Source =
  | { kind: "bytes"; name: string; body: Blob; request?: string }
  | { kind: "recording"; name: string }
  | { kind: "alone"; name: string };

export interface Opened {
  source: Source;
  /** As it was chosen; "" is guessed. */
  protocol: string;
  trace: Trace | null;
  error: string;
  busy: boolean;
}

export const LARGEST = 32 * 1024 * 1024;
export const opened = signal<Opened | null>(null);

let latest = 0; // an answer to an older question is not shown

/** All that was opened together: files, and the answers of a HAR file. */
export const sources = signal<Source[]>([]);

const MOST_FILES = 50;
const MOST_KEPT = 64 * 1024 * 1024; // bytes that outlive a reload
const KEPT = "file";

export async function openFiles(files: readonly File[]): Promise<void> {
  const found = (await Promise.all(files.slice(0, MOST_FILES).map(sourcesOf))).flat().slice(0, MOST_FILES);
  await openAll(found);
}

/** A file, or each answer of a HAR file. */
async function sourcesOf(file: File): Promise<Source[]> {
  const name = file.name || "a file";
  if (/\.har$/i.test(name) && file.size <= LARGEST) {
    const entries = readHar(await file.text());
    if (entries?.length) {
      return entries.map(({ name: path, body, request }) => ({
        kind: "bytes",
        name: path,
        body: new Blob([body]),
        request,
      }));
    }
  }
  return [{ kind: "bytes", name, body: file }];
}

export async function openText(text: string): Promise<void> {
  const entries = text.trimStart().startsWith("{") ? readHar(text) : null;
  if (!entries?.length) return openAll([{ kind: "bytes", name: "Pasted text", body: new Blob([text]) }]);
  const found = entries.slice(0, MOST_FILES);
  return openAll(found.map(({ name, body, request }) => ({ kind: "bytes", name, body: new Blob([body]), request })));
}

async function openAll(found: Source[]): Promise<void> {
  const [first] = found;
  if (!first) return;
  sources.value = found;
  await open(first);
  keep();
}

/** Shows another one of the files. */
export function chooseSource(index: number): Promise<void> {
  const source = sources.value[index];
  return source ? open(source).then(keep) : Promise.resolve();
}

interface Kept {
  files: { name: string; body: Blob; request: string }[];
  chosen: number;
}

function keep(): void {
  const files = sources.value.flatMap((source) =>
    source.kind === "bytes" ? [{ name: source.name, body: source.body, request: source.request ?? "" }] : [],
  );
  const size = files.reduce((sum, { body }) => sum + body.size, 0);
  const shown = opened.value?.source;
  const chosen = shown ? sources.value.indexOf(shown) : -1;
  if (files.length && size <= MOST_KEPT) void keepValue(KEPT, { files, chosen } satisfies Kept);
  else void forgetValue(KEPT);
}

/** Brings back what was open when the tab was reloaded. */
export async function restoreFiles(): Promise<void> {
  const kept = await readValue<Kept>(KEPT);
  if (!kept || opened.value) return;
  sources.value = kept.files.map(({ name, body, request }) => ({ kind: "bytes", name, body, request }));
  const source = sources.value[kept.chosen] ?? sources.value[0];
  if (source) await open(source);
}

export function openRecording(name: string): Promise<void> {
  sources.value = [];
  return open({ kind: "recording", name });
}

/** The file of `penstock inspect --web`, as soon as it is known that there is one. */
export function startAlone(): void {
  const done = effect(() => {
    const name = about.value?.file;
    if (!name) return;
    queueMicrotask(() => done());
    void open({ kind: "alone", name });
    if (location.hash === "" || location.hash === "#/") go("file");
  });
}

function open(source: Source): Promise<void> {
  opened.value = { source, protocol: "", trace: null, error: "", busy: true };
  const size = source.kind === "bytes" ? sentSize(source) : 1;
  if (size === 0 || size > LARGEST) {
    opened.value = { ...opened.value, busy: false, error: wrongSize(size) };
    return Promise.resolve();
  }
  return load("", "");
}

/** The bytes that the gateway gets of a file, its request among them; 0 for a file without any. */
function sentSize({ body, request = "" }: { body: Blob; request?: string }): number {
  return body.size && body.size + new Blob([request]).size;
}

function wrongSize(size: number): string {
  if (size === 0) return "There is nothing in it.";
  const limit = `${formatBytes(size)} are too many for the page, which takes ${formatBytes(LARGEST)}.`;
  return `${limit} penstock inspect FILE in a terminal takes any size.`;
}

/** The same bytes read as another protocol; "" guesses. */
export function chooseProtocol(protocol: string): Promise<void> {
  return load(protocol, opened.value?.trace?.consumer ?? "");
}

/** The same bytes as another consumer gets them. */
export function chooseConsumer(consumer: string): Promise<void> {
  return load(opened.value?.protocol ?? "", consumer);
}

export function close(): void {
  latest += 1;
  opened.value = null;
  sources.value = [];
  void forgetValue(KEPT);
}

async function load(protocol: string, consumer: string): Promise<void> {
  const now = opened.value;
  if (!now) return;
  latest += 1;
  const mine = latest;
  opened.value = { ...now, protocol, busy: true, error: "" };
  const result = await trace(now.source, protocol, consumer).catch((error) => explain(error));
  if (mine !== latest || !opened.value) return;
  const failed = typeof result === "string";
  const shown = failed ? opened.value.trace : { ...result, title: result.title || now.source.name };
  opened.value = { ...opened.value, busy: false, error: failed ? result : "", trace: shown };
}

function trace(source: Source, protocol: string, consumer: string): Promise<Trace> {
  return askJson(...way(source, { protocol, as: consumer }));
}

/** The whole text of a frame or an output that was cut. */
export function wholeText(
  { source, protocol, trace }: Opened,
  kind: "frames" | "outputs",
  place: number,
): Promise<string> {
  const one = { [kind === "frames" ? "frame" : "output"]: String(place) };
  return askText(...way(source, { protocol, as: trace?.consumer ?? "", ...one }));
}

/** One HTML file with the page and what it shows, as the consumer sees it who is chosen now. */
export async function exported({ source, protocol, trace }: Opened, others: string[]): Promise<Blob> {
  const query = { protocol, as: trace?.consumer ?? "", with: others.join(",") };
  return (await ask(...way(source, query, "export"))).blob();
}

/** The tokens of the recorded request, part by part. */
export function promptBreakdown({ source, protocol }: Opened): Promise<Breakdown> {
  return askJson(...way(source, { protocol }, "breakdown"));
}

/**
 * Where to ask about a source, and what to send along: the request, if there is one, before the file. Without `what` it
 * is asked for its trace.
 */
function way(source: Source, query: Record<string, string>, what?: "export" | "breakdown"): [string, RequestInit] {
  if (source.kind === "bytes") {
    const path = `/inspector/${what ?? "trace"}`;
    const { name, body } = source;
    const request = new Blob([source.request ?? ""]);
    const sent = { ...query, name, request_bytes: request.size ? String(request.size) : "" };
    return [path + asked(sent), { method: "POST", body: request.size ? new Blob([request, body]) : body }];
  }
  if (source.kind === "alone") return [`/inspector/${what ?? "file"}${asked(query)}`, {}];
  const path = `/inspector/recordings/${encodeURIComponent(source.name)}`;
  return [path + (what ? `/${what}` : "") + asked(query), {}];
}

function asked(query: Record<string, string>): string {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return given ? `?${given}` : "";
}
