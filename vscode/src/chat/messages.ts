// The host's messages and tools → the wire form. Parts are told by class where the host has one, and by shape inside tool
// results, where classes are lost. Data becomes base64; nothing is interpreted: that is the gateway's work.

import type { Message, MessagePart, Tool } from "../wire.ts";
import type { HostClasses } from "./host.ts";
import { mended, mendedDeep } from "./surrogates.ts";

export interface HostMessage {
  readonly role: number;
  readonly name?: string | undefined;
  readonly content: readonly unknown[];
}

type Shape = Record<string, unknown>;
/** What a provider wants back with a call, by call id: the host has no place for it. */
export type Extras = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

export function wireMessages(
  messages: readonly HostMessage[],
  host: HostClasses,
  extras: Extras = new Map(),
): Message[] {
  return messages.map((message) => ({
    role: message.role,
    ...(message.name ? { name: mended(message.name) } : {}),
    content: message.content.map((part) => wirePart(part, host, extras)),
  }));
}

export function wireTools(tools: readonly Tool[]): Tool[] {
  return tools.map(({ name, description, inputSchema }) =>
    mendedDeep({ name, ...(description ? { description } : {}), ...(inputSchema ? { inputSchema } : {}) }),
  );
}

function wirePart(part: unknown, host: HostClasses, extras: Extras): MessagePart {
  if (typeof part === "string") return { kind: "text", value: mended(part) };
  const shape = (part ?? {}) as Shape;
  if (host.Thinking && part instanceof host.Thinking) return thinking(shape);
  if (part instanceof host.Text) return { kind: "text", value: mended(String(shape.value)) };
  if (isCall(part, host)) return call(shape, extras);
  if (isResult(part, host)) return result(shape);
  if (isData(part, host)) return data(shape);
  return other(shape);
}

const isCall = (part: unknown, host: HostClasses) =>
  part instanceof host.Call || (typeof (part as Shape)?.callId === "string" && "input" in (part as Shape));
const isResult = (part: unknown, host: HostClasses) =>
  part instanceof host.Result || (typeof (part as Shape)?.callId === "string" && "content" in (part as Shape));
const isData = (part: unknown, host: HostClasses) =>
  part instanceof host.Data || (typeof (part as Shape)?.mimeType === "string" && "data" in (part as Shape));

function thinking(part: Shape): MessagePart {
  const { value, id, metadata } = part;
  const said = Array.isArray(value) ? value.map((one) => mended(String(one))) : mended(String(value ?? ""));
  return {
    kind: "thinking",
    value: said,
    ...(id ? { id } : {}),
    ...(metadata ? { metadata: mendedDeep(metadata) } : {}),
  };
}

function call(part: Shape, extras: Extras): MessagePart {
  const { callId, name, input } = part;
  const extra = extras.get(String(callId));
  return { kind: "call", callId, name, input: mendedDeep(input ?? {}), ...(extra ? { extra } : {}) };
}

function result(part: Shape): MessagePart {
  const content = Array.isArray(part.content) ? part.content : [part.content];
  return {
    kind: "result",
    callId: part.callId,
    content: content.map(resultContent),
    ...(part.isError === true ? { isError: true } : {}),
  };
}

/** What a tool gave: text, data, a prompt-tsx tree, or any value. */
function resultContent(item: unknown): unknown {
  if (typeof item === "string") return mended(item);
  if (typeof item !== "object" || item === null) return { value: item ?? null };
  const shape = item as Shape;
  if (typeof shape.mimeType === "string" && "data" in shape) return data(shape);
  if (typeof shape.value === "string") return { kind: "text", value: mended(shape.value) };
  return other(shape);
}

function data(part: Shape): MessagePart {
  return { kind: "data", mimeType: part.mimeType, data: base64(part.data) };
}

/** A tree, or something newer than this extension: its own fields, which the gateway tells by their shape. */
function other(part: Shape): MessagePart {
  return mendedDeep({ ...part });
}

/** Bytes in any of the forms in which they cross the host's borders. */
export function bytesOf(data: unknown): Buffer {
  if (data instanceof Uint8Array) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (typeof data === "string") return Buffer.from(data, "base64");
  if (Array.isArray(data)) return Buffer.from(data);
  const shape = (data ?? {}) as Shape;
  if (shape.buffer instanceof Uint8Array) return bytesOf(shape.buffer);
  if (shape.type === "Buffer" && Array.isArray(shape.data)) return Buffer.from(shape.data);
  return Buffer.from(Object.values(shape).filter((byte): byte is number => typeof byte === "number"));
}

const base64 = (data: unknown): string => bytesOf(data).toString("base64");
