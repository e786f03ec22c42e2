// The host's classes as plain ones, and a gateway on loopback that says what it is told: what the tests share.

import * as http from "node:http";
import type { AddressInfo } from "node:net";
import type { HostClasses } from "../src/chat/host.ts";
import type { Model } from "../src/wire.ts";

export class Text {
  value: string;
  constructor(value: string) {
    this.value = value;
  }
}
export class Thinking {
  value: string | string[];
  id?: string;
  metadata?: object;
  constructor(value: string | string[], id?: string, metadata?: object) {
    this.value = value;
    if (id !== undefined) this.id = id;
    if (metadata !== undefined) this.metadata = metadata;
  }
}
export class Call {
  callId: string;
  name: string;
  input: object;
  constructor(callId: string, name: string, input: object) {
    this.callId = callId;
    this.name = name;
    this.input = input;
  }
}
export class Result {
  callId: string;
  content: unknown[];
  constructor(callId: string, content: unknown[]) {
    this.callId = callId;
    this.content = content;
  }
}
export class Data {
  data: Uint8Array;
  mimeType: string;
  constructor(data: Uint8Array, mimeType: string) {
    this.data = data;
    this.mimeType = mimeType;
  }
}

export const bare: HostClasses = { Text, Call, Result, Data };
export const full: HostClasses = { ...bare, Thinking };

export const model = (more: Partial<Model> = {}): Model => ({
  id: "acme/tiny-1",
  name: "Tiny 1",
  family: "tiny",
  version: "1",
  maxInputTokens: 1000,
  maxOutputTokens: 200,
  capabilities: { toolCalling: true, imageInput: true },
  detail: "Acme",
  counting: { factors: { words: 1, marks: 0.5 }, message: 4, image: 85 },
  ...more,
});

export interface Seen {
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  readonly closed: Promise<void>;
}

export interface Server {
  readonly url: string;
  readonly seen: Seen[];
  close(): Promise<void>;
}

export type Say = (seen: Seen, response: http.ServerResponse) => void | Promise<void>;

export async function gateway(say: Say): Promise<Server> {
  const seen: Seen[] = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const closed = new Promise<void>((done) => response.on("close", () => done()));
    const row = { path: request.url ?? "", headers: request.headers, body, closed };
    seen.push(row);
    await say(row, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () =>
    new Promise<void>((done) => {
      server.closeAllConnections();
      server.close(() => done());
    });
  return { url, seen, close };
}

export const lines = (...rows: object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
