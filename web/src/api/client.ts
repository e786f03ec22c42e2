// Asks the gateway: JSON, whole texts, and streams that reconnect. Leans on key.ts and sse.ts; knows no view.
import { key, keyWanted, session, sessionWanted } from "./key.ts";
import { type Message, messages } from "./sse.ts";

export class Refusal extends Error {
  readonly status: number;
  /** The gateway's own error code; "" if it gave none. */
  readonly code: string;
  /** Of a query that cannot be read: where the error is. */
  readonly position: number;
  readonly length: number;
  constructor(status: number, message: string, code = "", position = 0, length = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.position = position;
    this.length = length;
  }
}

/** Codes that the gateway alone gives, when a key is missing, unknown, expired or revoked. A provider's 401 has none. */
const KEY_CODES = new Set(["invalid_api_key", "key_expired", "key_revoked"]);

/** Says what went wrong in one line. */
export function explain(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (error instanceof TypeError) return "The gateway does not answer.";
  return error instanceof Error ? error.message : String(error);
}

export async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const [sentKey, sentSession] = [key.value, session.value];
  if (sentKey) headers.set("authorization", `Bearer ${sentKey}`);
  if (sentSession && path.startsWith("/inspector/")) headers.set("x-penstock-session-token", sentSession);
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const refusal = await readRefusal(response);
  // A late answer says nothing of a key that was given since.
  if (KEY_CODES.has(refusal.code) && key.peek() === sentKey) keyWanted.value = true;
  if (refusal.code === "session_needed" && session.peek() === sentSession) sessionWanted.value = true;
  throw refusal;
}

async function readRefusal(response: Response): Promise<Refusal> {
  const { status, statusText } = response;
  const text = await response.text().catch(() => "");
  let error: { message?: unknown; code?: unknown; position?: unknown; length?: unknown } = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    // not JSON: the status must do
  }
  const said = typeof error.message === "string" ? error.message : "";
  const code = typeof error.code === "string" ? error.code : "";
  const message = said || `The gateway said ${status} ${statusText}`.trim();
  return new Refusal(status, message, code, Number(error.position ?? 0), Number(error.length ?? 0));
}

export async function askJson<T>(path: string, options?: RequestInit): Promise<T> {
  return (await ask(path, options)).json() as Promise<T>;
}

export async function askText(path: string, options?: RequestInit): Promise<string> {
  return (await ask(path, options)).text();
}

/** One streamed answer, message by message, until it ends or `signal` fires. */
export async function* listen(path: string, signal: AbortSignal): AsyncGenerator<Message> {
  const response = await ask(path, { signal, headers: { accept: "text/event-stream" } });
  if (response.body) yield* messages(response.body);
}

export type Link = "connecting" | "open" | "lost";
export const FIRST_WAIT = 500;
export const LONGEST_WAIT = 10_000;

/** Waits, or until `signal` fires. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
  });
}
