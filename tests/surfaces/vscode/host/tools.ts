// What the suites share: models by id, replies taken apart, the line to the test that runs outside, and the one to the page.

import * as vscode from "vscode";

export const VENDOR = "penstock";

export async function model(id: string, vendor = VENDOR): Promise<vscode.LanguageModelChat> {
  const [found] = await vscode.lm.selectChatModels({ vendor, id });
  if (!found) throw new Error(`there is no model ${id}`);
  return found;
}

export interface Taken {
  text: string;
  thinking: string;
  metadata: Record<string, unknown> | undefined;
  calls: vscode.LanguageModelToolCallPart[];
  data: { mimeType: string; bytes: Buffer }[];
  parts: unknown[];
}

interface Thinking {
  readonly value: string | string[];
  readonly metadata?: Record<string, unknown>;
}
const ThinkingPart = (vscode as unknown as Record<string, unknown>).LanguageModelThinkingPart as
  | (new (
      value: string,
      id?: string,
      metadata?: object,
    ) => Thinking)
  | undefined;

export async function taken(
  response: vscode.LanguageModelChatResponse,
  each: (part: unknown) => void = () => {},
): Promise<Taken> {
  const found: Taken = { text: "", thinking: "", metadata: undefined, calls: [], data: [], parts: [] };
  for await (const part of response.stream) {
    found.parts.push(part);
    each(part);
    if (ThinkingPart && part instanceof ThinkingPart) think(found, part);
    else take(found, part);
  }
  return found;
}

function take(found: Taken, part: unknown): void {
  if (part instanceof vscode.LanguageModelTextPart) found.text += part.value;
  else if (part instanceof vscode.LanguageModelToolCallPart) found.calls.push(part);
  else if (part instanceof vscode.LanguageModelDataPart) {
    found.data.push({ mimeType: part.mimeType, bytes: Buffer.from(part.data) });
  }
}

function think(found: Taken, part: Thinking): void {
  found.thinking += Array.isArray(part.value) ? part.value.join("") : part.value;
  if (part.metadata && Object.keys(part.metadata).length) found.metadata = part.metadata;
}

export const user = (...content: (string | vscode.LanguageModelTextPart | vscode.LanguageModelDataPart)[]) =>
  vscode.LanguageModelChatMessage.User(
    content.map((part) => (typeof part === "string" ? new vscode.LanguageModelTextPart(part) : part)),
  );

/** The reply as the host sends it back within a turn: thinking in one item with the last metadata, then text, then calls. */
export function assistant(reply: Taken, { thinking = true } = {}): vscode.LanguageModelChatMessage {
  const parts: unknown[] = [];
  if (thinking && ThinkingPart && (reply.thinking || reply.metadata))
    parts.push(new ThinkingPart(reply.thinking, undefined, reply.metadata));
  if (reply.text) parts.push(new vscode.LanguageModelTextPart(reply.text));
  return vscode.LanguageModelChatMessage.Assistant([...parts, ...reply.calls] as vscode.LanguageModelTextPart[]);
}

export const answer = (call: vscode.LanguageModelToolCallPart, text: string) =>
  vscode.LanguageModelChatMessage.User([
    new vscode.LanguageModelToolResultPart(call.callId, [new vscode.LanguageModelTextPart(text)]),
  ]);

export async function ask(
  id: string,
  messages: vscode.LanguageModelChatMessage[],
  options: vscode.LanguageModelChatRequestOptions = {},
  vendor = VENDOR,
  token = new vscode.CancellationTokenSource().token,
): Promise<Taken> {
  return taken(await (await model(id, vendor)).sendRequest(messages, options, token));
}

export function usage(reply: Taken): { prompt_tokens: number; completion_tokens: number; total_tokens: number } {
  const found = reply.data.filter(({ mimeType }) => mimeType === "usage");
  if (found.length !== 1) throw new Error(`${found.length} usage parts`);
  return JSON.parse(found[0]?.bytes.toString() ?? "");
}

interface Job {
  /** Where files may be left for the test outside, or for the next window. */
  readonly folder: string;
  readonly control: string;
  readonly eye: string;
}
export const job = (): Job => JSON.parse(process.env.PENSTOCK_E2E ?? "{}");

async function asked<T>(url: string, argument: unknown): Promise<T> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(argument) });
  if (!response.ok) throw new Error(`${url}: ${await response.text()}`);
  return (await response.json()) as T;
}

/** Ask the test that runs outside to do something, or to tell something. */
export const control = <T = unknown>(command: string, argument: unknown = null): Promise<T> =>
  asked(`${job().control}/${command}`, argument);

/** Ask what the page shows: drive/eye.mjs has the words. */
export const eye = <T = unknown>(look: string, argument: unknown = null): Promise<T> =>
  asked(`${job().eye}/${look}`, argument);

/** Come back to the window, again if need be, until the host is told of other models. */
export async function toldOfModels(): Promise<void> {
  let told = false;
  const listening = vscode.lm.onDidChangeChatModels(() => {
    told = true;
  });
  await until("the host to be told", async () => {
    await eye("leave");
    return told;
  });
  listening.dispose();
}

type Nothing = undefined | null | false;

export async function until<T>(
  what: string | (() => string),
  look: () => Promise<T | Nothing> | T | Nothing,
  limit = 120_000,
): Promise<T> {
  const end = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) {
      throw new Error(`waited ${limit / 1000} s in vain for ${typeof what === "string" ? what : what()}`);
    }
    await new Promise((wake) => setTimeout(wake, 100));
  }
}
