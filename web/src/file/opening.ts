// The file that is looked at: its bytes stay in the page, and the gateway is asked what they mean. It stays open
// while one goes elsewhere in the page and comes back.
import { effect, signal } from "@preact/signals";
import { about } from "../api/about.ts";
import { ask, askJson, askText, explain } from "../api/client.ts";
import type { Breakdown, Trace } from "../api/types.ts";
import { go } from "../router.ts";
import { formatBytes } from "../ui/format.ts";

/** `alone`: the one file that `penstock inspect --web` shows. */
export type Source =
  | { kind: "bytes"; name: string; body: Blob }
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

export function openFile(file: File): Promise<void> {
  return open({ kind: "bytes", name: file.name || "a file", body: file });
}

export function openText(text: string): Promise<void> {
  return open({ kind: "bytes", name: "Pasted text", body: new Blob([text]) });
}

export function openRecording(name: string): Promise<void> {
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
  if (source.kind === "bytes" && (source.body.size === 0 || source.body.size > LARGEST)) {
    opened.value = { ...opened.value, busy: false, error: wrongSize(source.body.size) };
    return Promise.resolve();
  }
  return load("", "");
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
export async function exported({ source, protocol, trace }: Opened): Promise<Blob> {
  const query = { protocol, as: trace?.consumer ?? "" };
  return (await ask(...way(source, query, "export"))).blob();
}

/** The tokens of the recorded request, part by part. */
export function promptBreakdown({ source, protocol }: Opened): Promise<Breakdown> {
  return askJson(...way(source, { protocol }, "breakdown"));
}

/** Where to ask about a source, and what to send along. Without `what` it is asked for its trace. */
function way(source: Source, query: Record<string, string>, what?: "export" | "breakdown"): [string, RequestInit] {
  if (source.kind === "bytes") {
    const path = `/inspector/${what ?? "trace"}`;
    return [path + asked({ ...query, name: source.name }), { method: "POST", body: source.body }];
  }
  if (source.kind === "alone") return [`/inspector/${what ?? "file"}${asked(query)}`, {}];
  const path = `/inspector/recordings/${encodeURIComponent(source.name)}`;
  return [path + (what ? `/${what}` : "") + asked(query), {}];
}

function asked(query: Record<string, string>): string {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return given ? `?${given}` : "";
}
