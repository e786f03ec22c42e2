import assert from "node:assert/strict";
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import { type Asked, converse, requestOf, type Services } from "../src/chat/converse.ts";
import { Counter } from "../src/chat/counting.ts";
import type { PromptSize } from "../src/chat/preflight.ts";
import { Refusals } from "../src/chat/refusals.ts";
import { Failure } from "../src/errors.ts";
import { Client } from "../src/gateway/client.ts";
import type { Model, Tokens } from "../src/wire.ts";
import { Data, full, gateway, lines, model, type Say, type Seen, type Server, Text } from "./host.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const OK = lines(
  { kind: "start", version: 1, id: "r" },
  { kind: "text", value: "Hi" },
  { kind: "end", reason: "stop" },
);
const HI: Asked = { model: model(), messages: [{ role: 1, content: [new Text("Hello there")] }], tools: undefined };

async function served(say: Say): Promise<Server> {
  const server = await gateway(say);
  servers.push(server);
  return server;
}

function services(url: string | (() => string), more: Partial<Services> = {}): Services {
  return {
    host: full,
    client: async () => new Client({ url: typeof url === "string" ? url : url(), key: "one-time" }),
    lost: () => {},
    counter: new Counter(model().counting),
    refusals: new Refusals(),
    extras: new Map(),
    reasoning: "thinking",
    notices: {},
    ...more,
  };
}

async function ask(asked: Asked, given: Services, signal = new AbortController().signal): Promise<unknown[]> {
  const parts: unknown[] = [];
  await converse(asked, (part) => parts.push(part), signal, given);
  return parts;
}

test("a request goes out with the key, and its parts come back", async () => {
  const server = await served((_, response) => void response.end(OK));
  const parts = await ask(HI, services(server.url));
  assert.deepEqual(parts[0], new Text("Hi"));
  assert.equal(server.seen[0]?.path, "/vscode/chat");
  assert.equal(server.seen[0]?.headers.authorization, "Bearer one-time");
  const usage = parts.findLast((part): part is Data => part instanceof Data && part.mimeType === "usage");
  assert.deepEqual(JSON.parse(Buffer.from(usage?.data ?? []).toString()), {
    prompt_tokens: 6,
    completion_tokens: 1,
    total_tokens: 7,
  });
});

test("what the host asks for is in the request", () => {
  const { extras } = services("");
  const asked: Asked = {
    ...HI,
    tools: [{ name: "look", description: "Looks", inputSchema: { type: "object" } }],
    toolMode: 2,
    modelOptions: { temperature: 0.2 },
    modelConfiguration: { reasoningEffort: "high" },
    requestInitiator: "core",
  };
  assert.deepEqual(requestOf(asked, { host: full, extras }), {
    version: 1,
    model: "acme/tiny-1",
    messages: [{ role: 1, content: [{ kind: "text", value: "Hello there" }] }],
    tools: [{ name: "look", description: "Looks", inputSchema: { type: "object" } }],
    toolMode: 2,
    modelOptions: { temperature: 0.2 },
    modelConfiguration: { reasoningEffort: "high" },
    requestInitiator: "core",
  });
  const configurationSchema = { type: "object", properties: { reasoningEffort: { enum: ["low", "high"] } } };
  const utility = (more: object) => requestOf({ ...asked, model: model(more), utility: true }, { host: full, extras });
  assert.deepEqual(utility({ configurationSchema }).modelConfiguration, { reasoningEffort: "low" });
  const silent = { type: "object", properties: { reasoningEffort: { enum: ["none", "low"] } } };
  assert.deepEqual(utility({ configurationSchema: silent }).modelConfiguration, { reasoningEffort: "none" });
  assert.equal("modelConfiguration" in utility({}), false, "a model without the choice is not told");
});

const BROKEN = lines(
  { kind: "start", version: 1, id: "r" },
  { kind: "text", value: "So" },
  { kind: "error", fault: "overloaded", message: "Too busy.", status: 529 },
);

test("an error waits until the host has handed on the parts before it", async () => {
  const server = await served((_, response) => void response.end(BROKEN));
  const order: string[] = [];
  let arrive = () => {};
  const asked = new Promise<void>((resolve) => {
    const delivered = () =>
      new Promise<void>((arrived) => {
        arrive = arrived;
        resolve();
      });
    const failing = ask(HI, services(server.url, { delivered }));
    void failing.catch(() => order.push("error"));
  });
  await asked;
  order.push("arrived");
  arrive();
  while (order.length < 2) await new Promise((wake) => setImmediate(wake));
  assert.deepEqual(order, ["arrived", "error"]);
});

test("a host that fails meanwhile does not hide the error", async () => {
  const server = await served((_, response) => void response.end(BROKEN));
  const delivered = () => Promise.reject(new Error("the window has gone"));
  await assert.rejects(ask(HI, services(server.url, { delivered })), /overloaded/);
});

test("an error before any part waits for nothing", async () => {
  const server = await served((_, response) => {
    response.statusCode = 503;
    response.end("{}");
  });
  const delivered = () => assert.fail("nothing was given to the host");
  await assert.rejects(ask(HI, services(server.url, { delivered })), Failure);
});

const chats = (server: Server) => server.seen.filter(({ path }) => path.endsWith("chat"));

interface Answers {
  readonly chat?: Say;
  readonly count?: Say;
}

/** A gateway that answers chats and counts apart. */
const answering = ({ chat = (_, response) => void response.end(OK), count = () => {} }: Answers): Promise<Server> =>
  served((seen, response) => (seen.path.includes("count") ? count : chat)(seen, response));

const counted = (prompt: object, more: object = {}): Say => {
  const answer = { version: 1, prompt, limit: 1000, assumed: false, warning: null, ...more };
  return (_, response) => void response.end(JSON.stringify(answer));
};

/** The first size that is told of a prompt. */
async function sizeOf(asked: Asked, server: Server, more: Partial<Services> = {}): Promise<PromptSize> {
  const { promise, resolve } = Promise.withResolvers<PromptSize>();
  await ask(
    asked,
    services(server.url, { ...more, notices: { onPrompt: (_, size) => resolve(size) }, slowCount: 30_000 }),
  );
  return promise;
}

const words = (number: number, more: Partial<Model> = {}): Asked => ({
  ...HI,
  model: model(more),
  messages: [{ role: 1, content: [new Text("word ".repeat(number))] }],
});

test("a prompt of any length is sent, and warned of from 90% of a known limit", async () => {
  const server = await answering({ count: (_, response) => void response.end('{"version":1,"counts":[]}') });
  const levels: [number, Partial<Model>, PromptSize][] = [
    [895, {}, { tokens: 899, method: "estimated", limit: 1000 }],
    [896, {}, { tokens: 900, method: "estimated", limit: 1000, level: "near" }],
    [996, {}, { tokens: 1000, method: "estimated", limit: 1000, level: "near" }],
    [997, {}, { tokens: 1001, method: "estimated", limit: 1000, level: "over" }],
    [9_996, {}, { tokens: 10_000, method: "estimated", limit: 1000, level: "over" }],
    [9_996, { assumed: true }, { tokens: 10_000, method: "estimated" }],
  ];
  for (const [number, more, size] of levels) assert.deepEqual(await sizeOf(words(number, more), server), size);
  assert.equal(chats(server).length, levels.length);
});

test("the whole prompt is counted beside its request, which goes first", async () => {
  const prompt = { tokens: 950, method: "hybrid", confidence: 0.98, low: 930, high: 970 };
  const server = await answering({ count: counted(prompt) });
  assert.deepEqual(await sizeOf(HI, server), { ...prompt, limit: 1000, level: "near" });
  assert.deepEqual(
    server.seen.map(({ path }) => path),
    ["/vscode/chat", "/vscode/count"],
  );
  assert.equal(server.seen[1]?.body, server.seen[0]?.body);
  assert.equal(server.seen[1]?.headers.authorization, "Bearer one-time");
});

test("the count of a large prompt does not share the connection with its request", async () => {
  let [sent, before] = [0, 0];
  const { promise: sized, resolve: onPrompt } = Promise.withResolvers<unknown>();
  const raw = http.createServer(async (request, response) => {
    const chat = request.url?.endsWith("chat");
    if (!chat) before = sent;
    for await (const chunk of request) if (chat) sent += chunk.length;
    if (chat) response.end(OK);
    else counted({ tokens: 7, method: "estimated" })({} as Seen, response);
  });
  await new Promise<void>((done) => raw.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(raw.address() as AddressInfo).port}`;
  const messages = [{ role: 1, content: [new Text("x".repeat(20_000_000))] }];
  await ask({ ...HI, messages }, services(url, { notices: { onPrompt }, slowCount: 30_000 }));
  await sized;
  raw.closeAllConnections();
  raw.close();
  assert.ok(before > 10_000_000, `the count was begun after ${before} of ${sent} bytes`);
});

test("a count that does not come delays nothing, and the local estimate is shown", async () => {
  const { promise: asked, resolve: held } = Promise.withResolvers<() => void>();
  const late = counted({ tokens: 7, method: "actual", low: 7, high: 7 });
  const server = await answering({ count: (seen, response) => held(() => late(seen, response)) });
  const told: PromptSize[] = [];
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const onPrompt = (_: object, size: PromptSize) => (told.push(size) === 1 ? first : second).resolve();
  await ask(HI, services(server.url, { notices: { onPrompt }, slowCount: 20 }));
  await first.promise;
  assert.deepEqual(told, [{ tokens: 6, method: "estimated", limit: 1000 }]);
  (await asked)();
  await second.promise;
  assert.equal(told[1]?.method, "actual", "a late count is better than the estimate");
});

test("the limit follows the user's policy, and there is none where the window is not known", async () => {
  const prompt = { tokens: 990, method: "actual", confidence: 1, low: 990, high: 990 };
  const told = async (more: Partial<Model>, answer: object) =>
    sizeOf(words(1, more), await answering({ count: counted(prompt, answer) }));
  assert.deepEqual(await told({}, { limit: 1800 }), { ...prompt, limit: 1800 });
  assert.deepEqual(await told({}, { limit: null, assumed: true }), prompt);
  assert.deepEqual(await told({ assumed: true }, { limit: null, assumed: true }), prompt);
  assert.deepEqual(await told({ assumed: true }, { limit: 1000 }), { ...prompt, limit: 1000, level: "near" });
  const server = await answering({ count: counted(prompt) });
  await sizeOf(HI, server, { maxInput: "0.8" });
  assert.equal(server.seen[1]?.path, "/vscode/count?max_input=0.8");
});

test("nothing is counted for a title, nor after a cancel", async () => {
  const server = await answering({});
  await ask({ ...HI, utility: true }, services(server.url));
  const controller = new AbortController();
  const told: unknown[] = [];
  const slow = await answering({ chat: () => controller.abort(), count: () => {} });
  const notices = { onPrompt: (...size: unknown[]) => told.push(size), log: (line: string) => told.push(line) };
  await assert.rejects(ask(HI, services(slow.url, { notices }), controller.signal));
  await slow.seen.find(({ path }) => path.endsWith("count"))?.closed;
  assert.deepEqual([told, server.seen.length], [[], 1]);
});

const TOO_LONG = {
  kind: "error",
  fault: "too-large",
  message: "prompt is too long: 1043 tokens > 1000 maximum",
  status: 400,
};

test("a provider that cannot take the prompt says so, with its numbers and ours and what can be done", async () => {
  const { promise: sized, resolve: onPrompt } = Promise.withResolvers<unknown>();
  const chat: Say = async (_, response) => {
    await sized;
    response.end(lines({ kind: "start", version: 1 }, TOO_LONG));
  };
  const server = await answering({ chat, count: counted({ tokens: 1040, method: "hybrid", low: 1030, high: 1050 }) });
  await assert.rejects(ask(HI, services(server.url, { notices: { onPrompt }, slowCount: 30_000 })), {
    message:
      "Acme cannot take a prompt this long (400: prompt is too long: 1043 tokens > 1000 maximum); penstock counted 1,040 tokens (hybrid, 1,030 to 1,050) of 1,000 (104%): start a new chat, attach less or pick a model with a larger window.",
  });
  const bytes = lines({ kind: "start", version: 1 }, { ...TOO_LONG, message: "over 10 MB", status: 413 });
  const other = await answering({ chat: (_, response) => void response.end(bytes) });
  await assert.rejects(
    ask(HI, services(other.url)),
    /^Penstock: Acme cannot take a prompt this long \(413: over 10 MB\): start/,
  );
});

test("usage that nobody counted is the gateway's count of the prompt", async () => {
  const { promise: sized, resolve: onPrompt } = Promise.withResolvers<unknown>();
  const chat: Say = async (_, response) => {
    await sized;
    response.end(OK);
  };
  const server = await answering({ chat, count: counted({ tokens: 77, method: "hybrid", low: 70, high: 80 }) });
  const told: unknown[] = [];
  const onUsage = (_: object, tokens: Tokens, __: Model, estimated: boolean) =>
    told.push(tokens.prompt_tokens, estimated);
  await ask(HI, services(server.url, { notices: { onUsage, onPrompt }, slowCount: 30_000 }));
  assert.deepEqual(told, [77, true]);
});

const REFUSED = {
  kind: "whole",
  version: 1,
  lines: [{ kind: "error", fault: "auth", message: "bad key", status: 401 }],
};

test("what failed for good is refused from memory, and asked again after 30 seconds", async () => {
  const server = await served(({ path }, response) => {
    if (path.endsWith("chat")) response.writeHead(401, { "x-request-id": "req_9" }).end(JSON.stringify(REFUSED));
    else response.end('{"models":[]}');
  });
  const asked = () => chats(server).length;
  let now = 0;
  const given = services(server.url, { refusals: new Refusals(() => now) });
  const refused = {
    message:
      "Acme refused the key (401: bad key): run “Penstock: Add Provider” and enter a valid key, or put one into the configuration of a gateway of your own (request req_9).",
  };
  await assert.rejects(ask(HI, given), refused);
  now = 29_000;
  await assert.rejects(ask(HI, given), refused);
  assert.equal(asked(), 1);
  await assert.rejects(ask({ ...HI, messages: [] }, given), refused);
  assert.equal(asked(), 2, "another request is another matter");
  now = 31_000;
  await assert.rejects(ask(HI, given), refused);
  assert.equal(asked(), 3);
});

test("what may pass is asked again at once", async () => {
  const error = { kind: "error", fault: "overloaded", message: "busy", retryAfter: 7 };
  const server = await served((_, response) => void response.end(lines({ kind: "start", version: 1 }, error)));
  const given = services(server.url);
  await assert.rejects(ask(HI, given), /try again in 7 seconds/);
  await assert.rejects(ask(HI, given), Failure);
  assert.equal(chats(server).length, 2);
});

test("any shape of refusal is told in one sentence", async () => {
  const bodies: [number, string, RegExp][] = [
    [
      404,
      '{"error":{"message":"no such model"}}',
      /Acme does not have this model \(404: no such model\): pick another model\./,
    ],
    [500, "<html>oops</html>", /Acme failed \(500: <html>oops<\/html>\)/],
    [418, "", /Acme failed \(418: status 418\)/],
  ];
  for (const [status, body, said] of bodies) {
    const server = await served((_, response) => void response.writeHead(status).end(body));
    await assert.rejects(ask(HI, services(server.url)), said);
  }
});

test("a cancel closes the connection at once", async () => {
  const controller = new AbortController();
  const server = await served((_, response) => {
    response.write(lines({ kind: "start", version: 1 }, { kind: "text", value: "So" }));
  });
  const parts: unknown[] = [];
  const going = converse(
    HI,
    (part) => {
      parts.push(part);
      controller.abort();
    },
    controller.signal,
    services(server.url),
  );
  await assert.rejects(going);
  await server.seen[0]?.closed;
  assert.deepEqual(parts, [new Text("So")]);
});

test("a gateway that has gone is looked for once more", async () => {
  const back = await served((_, response) => void response.end(OK));
  let lost = 0;
  const given = services(() => (lost ? back.url : "http://127.0.0.1:9"), {
    lost: () => {
      lost++;
    },
  });
  assert.deepEqual((await ask(HI, given))[0], new Text("Hi"));
  assert.equal(lost, 1);
});

test("one that goes in the middle of an answer is said, and not asked twice", async () => {
  const server = await served((_, response) => {
    response.write(lines({ kind: "start", version: 1 }, { kind: "text", value: "So" }), () => response.destroy());
  });
  let lost = 0;
  const given = services(server.url, {
    lost: () => {
      lost++;
    },
  });
  await assert.rejects(ask(HI, given), /The gateway went away in the middle of its answer/);
  assert.equal(chats(server).length, 1);
  assert.equal(lost, 1);
});

test("what is told beside a reply is handed on, and the state of calls is kept for the next request", async () => {
  const server = await served(
    (_, response) =>
      void response.end(
        lines(
          { kind: "wait", seconds: 3, message: "rate limit" },
          { kind: "compacted", before: 900, after: 300 },
          { kind: "start", version: 1 },
          { kind: "call", callId: "gw-1", name: "look", input: {}, extra: { gemini: { s: 1 } } },
          { kind: "end", reason: "calls" },
        ),
      ),
  );
  const told: unknown[] = [];
  const given = services(server.url, {
    notices: {
      onBegin: () => told.push("begin"),
      onWait: (_, { seconds, message }) => told.push([seconds, message]),
      onCompacted: (_, { before, after }) => told.push([before, after]),
      onOver: () => told.push("over"),
    },
  });
  await ask(HI, given);
  assert.deepEqual(told, ["begin", [3, "rate limit"], [900, 300], "over", "over"]);
  assert.deepEqual(given.extras.get("gw-1"), { gemini: { s: 1 } });
  told.length = 0;
  await ask({ ...HI, utility: true }, given);
  assert.deepEqual(told, [], "nobody watches a title being made");
});

test("a provider that does not begin is shown, until it does", async () => {
  const waits: string[] = [];
  const server = await served(async (_, response) => {
    while (!waits.length) await new Promise((wake) => setTimeout(wake, 5));
    response.end(OK);
  });
  const onSilence = (_: object, seconds: number, who: string) => waits.push(`${who} ${seconds > 0}`);
  await ask(HI, services(server.url, { patience: 10, notices: { onSilence } }));
  assert.equal(waits[0], "Acme true");
  const shown = waits.length;
  await new Promise((wake) => setTimeout(wake, 30));
  assert.equal(waits.length, shown);
});

test("a cancel during a wait, and while a gateway is being started, ends at once", async () => {
  const controller = new AbortController();
  const server = await served((_, response) => void response.write(lines({ kind: "wait", seconds: 600 })));
  const notices = { onWait: () => controller.abort() };
  await assert.rejects(
    ask(HI, services(server.url, { notices }), controller.signal),
    (error) => !(error instanceof Failure),
  );
  await server.seen[0]?.closed;
  const late = new AbortController();
  const never = services("", { client: () => new Promise(() => setTimeout(() => late.abort(), 5)) });
  await assert.rejects(ask(HI, never, late.signal), /cancelled/);
});

test("a gateway that goes during a wait has not begun: another is asked", async () => {
  const waiting = await served((_, response) => {
    response.write(lines({ kind: "wait", seconds: 600 }), () => response.destroy());
  });
  const back = await served((_, response) => void response.end(OK));
  let lost = 0;
  const given = services(() => (lost ? back.url : waiting.url), { lost: () => void lost++ });
  assert.deepEqual((await ask(HI, given))[0], new Text("Hi"));
});

test("a key that the gateway does not take is no provider's matter, and is not remembered", async () => {
  const server = await served((_, response) => void response.writeHead(401).end(JSON.stringify(REFUSED)));
  const given = services(server.url);
  const refused = {
    message: "The gateway refused the key (401: it is not one of its keys): run “Penstock: Set Key of the Gateway”.",
  };
  await assert.rejects(ask(HI, given), refused);
  await assert.rejects(ask(HI, given), refused);
  assert.equal(chats(server).length, 2);
});
