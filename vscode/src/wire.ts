// The wire form of /vscode/*, version 1, as types: docs/vscode-parts.md describes it, wire-1.schema.json defines it.
// Reads lines forgivingly: a kind or field that is not known is skipped, never an error.

export const VERSION = 1;

export interface Counting {
  /** Tokens per count of a text feature, with the learned factor. */
  readonly factors: Readonly<Record<string, number>>;
  /** What the gateway has learned for the model. Only `factors` have it already. */
  readonly factor?: number;
  /** Tokens that a message, a call, a result take beside their content. */
  readonly message?: number;
  readonly call?: number;
  readonly result?: number;
  /** Tokens that a conversation, its tools together, and each of them take beside their content. */
  readonly base?: number;
  readonly tools?: number;
  readonly tool?: number;
  /** What a tool counts, of what the same text would. */
  readonly schema?: number;
  /** What thinking that is sent back counts, of what the same text would. */
  readonly reasoning?: number;
  readonly image?: number;
  /** How tools, and JSON in calls and results, are read: see rendering.ts. */
  readonly rendering?: string;
}

export interface Model {
  readonly id: string;
  readonly name: string;
  readonly family: string;
  readonly version: string;
  readonly maxInputTokens: number;
  readonly maxOutputTokens: number;
  readonly maxContextWindowTokens?: number;
  /** The context window is not known, and maxInputTokens is assumed. */
  readonly assumed?: boolean;
  readonly capabilities: { readonly toolCalling?: boolean | number; readonly imageInput?: boolean };
  readonly tooltip?: string;
  readonly detail?: string;
  readonly category?: { readonly label: string; readonly order: number };
  readonly statusIcon?: string;
  readonly pricing?: string;
  readonly configurationSchema?: Readonly<Record<string, unknown>>;
  readonly counting?: Counting;
  /** The gateway plays it from a packaged stream: no key is needed, and nobody is asked. */
  readonly played?: boolean;
  /** The gateway shortens a conversation that is too long for it. */
  readonly compacts?: boolean;
  /** Dollars for a million tokens, where they are known. */
  readonly prices?: { readonly input?: number; readonly output?: number };
}

export interface Tokens {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly total_tokens?: number;
  readonly prompt_tokens_details?: Readonly<Record<string, number>>;
  readonly completion_tokens_details?: Readonly<Record<string, number>>;
}

/** How many tokens a prompt has. Bounds are missing where the extension estimated it. */
export interface PromptCount {
  readonly tokens: number;
  /** `actual`: the provider counted this prompt; `hybrid`: it counted the earlier turns; `estimated`. */
  readonly method: string;
  readonly confidence?: number;
  readonly low?: number;
  readonly high?: number;
}
/** The gateway's count of a whole prompt. */
export interface CountedPrompt {
  readonly prompt: PromptCount;
  /** The model's input limit; undefined where its window is not known. */
  readonly limit?: number;
  readonly assumed: boolean;
}

export interface StartLine {
  readonly kind: "start";
  readonly version: number;
  readonly id?: string;
  readonly model?: string;
}
export interface TextLine {
  readonly kind: "text";
  readonly value: string;
  readonly refusal?: boolean;
}
export interface ThinkingLine {
  readonly kind: "thinking";
  readonly value: string;
  readonly id?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}
export interface CallLine {
  readonly kind: "call";
  readonly callId: string;
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly extra?: Readonly<Record<string, unknown>>;
}
export interface CutLine {
  readonly kind: "cut";
  readonly callId: string;
  readonly name: string;
  readonly input?: string;
}
export interface DataLine {
  readonly kind: "data";
  readonly data: string;
  readonly mimeType: string;
}
export interface UsageLine {
  readonly kind: "usage";
  readonly value: Tokens;
  readonly total?: Tokens;
  readonly estimated?: boolean;
}
export interface ErrorLine {
  readonly kind: "error";
  readonly fault: string;
  readonly message: string;
  readonly status?: number;
  readonly code?: string;
  readonly requestId?: string;
  readonly retryAfter?: number;
}
export interface EndLine {
  readonly kind: "end";
  readonly reason: string;
  readonly raw?: string;
  readonly message?: string;
}
/** The gateway waits for a provider (a rate limit, a retry) and says for how long. */
export interface WaitLine {
  readonly kind: "wait";
  readonly seconds: number;
  readonly message?: string;
}
/** The gateway made the conversation shorter before it sent it. */
export interface CompactedLine {
  readonly kind: "compacted";
  readonly before?: number;
  readonly after?: number;
}

export type Line =
  | StartLine
  | TextLine
  | ThinkingLine
  | CallLine
  | CutLine
  | DataLine
  | UsageLine
  | ErrorLine
  | EndLine
  | WaitLine
  | CompactedLine;

type Check = (line: Record<string, unknown>) => boolean;

const has =
  (type: string, ...names: string[]): Check =>
  (line) =>
    names.every((name) => typeof line[name] === type && line[name] !== null);
const all =
  (...checks: Check[]): Check =>
  (line) =>
    checks.every((check) => check(line));

// What a line must have to be of use; a line that has not is treated as one of an unknown kind.
const KINDS: Readonly<Record<Line["kind"], Check>> = {
  start: has("number", "version"),
  text: has("string", "value"),
  thinking: has("string", "value"),
  call: all(has("string", "callId", "name"), has("object", "input")),
  cut: has("string", "callId", "name"),
  data: has("string", "data", "mimeType"),
  usage: has("object", "value"),
  error: has("string", "fault", "message"),
  end: has("string", "reason"),
  wait: has("number", "seconds"),
  compacted: () => true,
};

/** A line, or undefined where there is nothing that this version understands. */
export function readLine(text: string): Line | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return asLine(value);
}

export function asLine(value: unknown): Line | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const line = value as Record<string, unknown>;
  const check =
    typeof line.kind === "string" && Object.hasOwn(KINDS, line.kind) ? KINDS[line.kind as Line["kind"]] : undefined;
  return check?.(line) ? (value as Line) : undefined;
}

/** The answer of /vscode/count to a whole prompt; undefined from a gateway that counts only single items. */
export function asCountedPrompt(value: unknown): CountedPrompt | undefined {
  const { prompt, limit, assumed } = (value ?? {}) as { prompt?: PromptCount; limit?: unknown; assumed?: unknown };
  if (typeof prompt?.tokens !== "number" || typeof prompt.method !== "string") return undefined;
  return { prompt, assumed: assumed === true, ...(typeof limit === "number" && { limit }) };
}

export interface MessagePart {
  readonly kind?: string;
  readonly [field: string]: unknown;
}
export interface Message {
  readonly role: number;
  readonly name?: string;
  readonly content: readonly MessagePart[];
}
export interface Tool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: object;
}
export interface ChatRequest {
  readonly version: number;
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly Tool[];
  readonly toolMode?: number;
  readonly modelOptions?: Readonly<Record<string, unknown>>;
  readonly modelConfiguration?: Readonly<Record<string, unknown>>;
  readonly requestInitiator?: string;
}
