// The protocols that clients of the gateway speak, and the gateway's conversion of a request between them.
import { askText } from "../api/client.ts";
import { copyText, parseJson, valueAt } from "../request/tree.ts";

export interface ClientProtocol {
  id: string;
  label: string;
  /** Who speaks it. */
  note: string;
}

export const PROTOCOLS: readonly ClientProtocol[] = [
  { id: "openai-chat", label: "Chat", note: "Chat Completions: most SDKs and agents" },
  { id: "responses", label: "Responses", note: "the newer OpenAI SDKs, Codex" },
  { id: "anthropic", label: "Messages", note: "Anthropic's SDKs, Claude Code" },
  { id: "gemini", label: "Gemini", note: "Google's SDKs" },
  { id: "uistream", label: "UI stream", note: "useChat of the AI SDK" },
  { id: "vscode", label: "VS Code", note: "the parts of a VS Code chat reply" },
];

export interface ConvertedRequest {
  protocol: string;
  path: string;
  headers: Record<string, string>;
  body: Record<string, unknown>;
  /** What the protocol cannot express, and what was changed for it. */
  notes: { code: string; message: string }[];
}

export interface ConversionOptions {
  from: string;
  to: string;
  model?: string;
  stream?: boolean;
}

/** A request as a client of another protocol would send it. */
export async function convertRequest(text: string, options: ConversionOptions): Promise<ConvertedRequest> {
  return JSON.parse(await askConversion(text, options)) as ConvertedRequest;
}

/** The body of a request in another protocol as JSON, with every digit of long numbers; and what was lost or changed. */
export async function convertText(
  text: string,
  options: ConversionOptions,
): Promise<{ text: string; notes: string[] }> {
  const answer = await askConversion(text, options);
  const { notes } = JSON.parse(answer) as ConvertedRequest;
  const body = valueAt(parseJson(answer) ?? null, "/body") ?? null;
  return { text: copyText(body), notes: notes.map(({ message }) => message) };
}

function askConversion(text: string, { from, to, model = "", stream }: ConversionOptions): Promise<string> {
  const query = new URLSearchParams({ from, to, model });
  if (stream !== undefined) query.set("stream", stream ? "1" : "0");
  return askText(`/inspector/convert?${query}`, { method: "POST", body: text });
}
