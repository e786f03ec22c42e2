// Asks the gateway: JSON, whole texts, and streams that reconnect. Leans on key.ts and sse.ts; knows no view.
import { key, keyWanted } from "./key.ts";
import { type Message, messages } from "./sse.ts";

export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Says what went wrong in one line. */
export function explain(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (error instanceof TypeError) return "The gateway does not answer.";
  return error instanceof Error ? error.message : String(error);
}

export async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key.value) headers.set("authorization", `Bearer ${key.value}`);
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  if (response.status === 401) keyWanted.value = true;
  throw new Refusal(response.status, await reason(response));
}

async function reason(response: Response): Promise<string> {
  const text = await response.text().catch(() => "");
  try {
    const message: unknown = JSON.parse(text).error?.message;
    if (typeof message === "string" && message) return message;
  } catch {
    // not JSON: the status must do
  }
  return `The gateway said ${response.status} ${response.statusText}`.trim();
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

/** Listens for good: a connection that ends is made again, after a wait that grows. Stops when `signal` fires. */
export async function keepListening(
  path: string,
  signal: AbortSignal,
  take: (message: Message) => void,
  tell: (link: Link, why: string) => void,
): Promise<void> {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    tell("connecting", "");
    try {
      for await (const message of listen(path, signal)) {
        wait = FIRST_WAIT;
        tell("open", "");
        take(message);
      }
      if (!signal.aborted) tell("lost", "The gateway ended the connection.");
    } catch (error) {
      if (signal.aborted) return;
      tell("lost", explain(error));
    }
    await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

/** Waits, or until `signal` fires. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
