// The protocols that clients of the gateway speak, and the gateway's conversion of a request between them.
import { askJson } from "../api/client.ts";

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
export function convertRequest(
  text: string,
  { from, to, model = "", stream }: ConversionOptions,
): Promise<ConvertedRequest> {
  const query = new URLSearchParams({ from, to, model });
  if (stream !== undefined) query.set("stream", stream ? "1" : "0");
  return askJson(`/inspector/convert?${query}`, { method: "POST", body: text });
}
