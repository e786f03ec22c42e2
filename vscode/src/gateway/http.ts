// One request to a gateway, over node:http: the body as it streams, a limit on every wait, and an end at once when the
// caller leaves. Knows nothing of what is said.

import * as http from "node:http";
import * as https from "node:https";
import { Failure } from "../errors.ts";

export interface Address {
  readonly url: string;
  readonly key: string;
}

export interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly body?: string;
  readonly signal?: AbortSignal;
  /** What the inspector of a gateway without keys asks for. */
  readonly session?: string;
  /** Milliseconds of silence after which it is given up. */
  readonly patience?: number;
  /** Called once the whole request is handed to the operating system. */
  readonly onSent?: (() => void) | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: AsyncIterable<Uint8Array>;
}

/** An address as people write it: a scheme may be missing, and the path of some API may stand at its end. */
export function baseOf(text: string, from: string): string {
  const plain = text
    .trim()
    .replace(/(?<!\/)\/+$/, "")
    .replace(/\/v1$/, "");
  const whole = /^[a-z]+:\/\//i.test(plain) ? plain : `http://${plain}`;
  if (!/^https?:/i.test(whole) || !URL.canParse(whole))
    throw new Failure(`${from} is not an address (${plain}): write it like http://127.0.0.1:4480.`);
  return whole;
}

const PATIENCE = 15_000;
const MOST = 16 * 1024 * 1024;
const heard = new WeakSet<object>();
const agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };

/** Closes the connections that are kept open between requests. Later requests open new ones. */
export function closeConnections(): void {
  for (const agent of Object.values(agents)) agent.destroy();
}

/** Who refuses a body before all of it is sent closes the connection, and by then nobody else listens to that. */
function hear(socket: object & { on(event: "error", run: () => void): unknown }): void {
  if (heard.has(socket)) return;
  heard.add(socket);
  socket.on("error", () => {});
}

/** What went wrong with the connection itself. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

export function ask({ url, key }: Address, path: string, options: Ask = {}): Promise<Answer> {
  const { method = "GET", body, signal, patience = PATIENCE, onSent, session = "" } = options;
  const target = new URL(path, url.endsWith("/") ? url : `${url}/`);
  const https_ = target.protocol === "https:";
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const request = (https_ ? https : http).request(
      target,
      {
        method,
        agent: agents[https_ ? "https:" : "http:"],
        headers: {
          accept: "application/json, application/x-ndjson",
          "user-agent": "penstock-vscode",
          ...(key ? { authorization: `Bearer ${key}` } : {}),
          ...(session ? { "x-penstock-session-token": session } : {}),
          ...(body === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        },
      },
      (response) => {
        response.on("close", () => signal?.removeEventListener("abort", stop));
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
      },
    );
    const stop = () => request.destroy(signal?.reason instanceof Error ? signal.reason : new Error("cancelled"));
    signal?.addEventListener("abort", stop, { once: true });
    request.setNoDelay(true);
    request.on("socket", hear);
    if (onSent) request.on("finish", onSent);
    request.setTimeout(patience, () =>
      request.destroy(new Unreachable(`no answer within ${Math.round(patience / 1000)} s`)),
    );
    request.on("error", (error) => {
      signal?.removeEventListener("abort", stop);
      reject(signal?.aborted || error instanceof Unreachable ? error : new Unreachable(error.message));
    });
    request.end(body);
  });
}

/** All of a body as text, up to a limit. */
export async function textOf(body: AsyncIterable<Uint8Array>, most = MOST): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > most) throw new Error(`the answer is over ${most} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

export async function json(
  address: Address,
  path: string,
  options: Ask = {},
): Promise<{ status: number; value: unknown }> {
  const { status, body } = await ask(address, path, options);
  const text = await textOf(body);
  try {
    return { status, value: JSON.parse(text) };
  } catch {
    return { status, value: undefined };
  }
}
