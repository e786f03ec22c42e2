import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { type Asked, converse, requestOf, type Services } from "../src/chat/converse.ts";
import { Counter } from "../src/chat/counting.ts";
import { Refusals } from "../src/chat/refusals.ts";
import { Failure } from "../src/errors.ts";
import { Client } from "../src/gateway/client.ts";
import { Data, full, gateway, lines, model, type Say, type Server, Text } from "./host.ts";

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

test("a prompt that is too long is refused with numbers before it is sent", async () => {
  const server = await served((_, response) => void response.end(OK));
  const long = { ...HI, messages: [{ role: 1, content: [new Text("word ".repeat(1200))] }] };
  await assert.rejects(ask(long, services(server.url)), {
    message: "The prompt is about 1,204 tokens and Tiny 1 takes 1,000: start a new chat or attach less.",
  });
  assert.equal(server.seen.length, 0);
  assert.deepEqual((await ask({ ...long, model: model({ compacts: true }) }, services(server.url)))[0], new Text("Hi"));
  let tight = 0;
  const near = { ...HI, messages: [{ role: 1, content: [new Text("word ".repeat(950))] }] };
  await ask(
    near,
    services(server.url, {
      notices: {
        onTight: (tokens) => {
          tight = tokens;
        },
      },
    }),
  );
  assert.equal(tight, 954);
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
  const asked = () => server.seen.filter(({ path }) => path.endsWith("chat")).length;
  let now = 0;
  const given = services(server.url, { refusals: new Refusals(() => now) });
  const refused = {
    message: "Acme refused the key (401: bad key): put a valid key into the gateway's configuration (request req_9).",
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
  assert.equal(server.seen.length, 2);
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
  assert.equal(server.seen.length, 1);
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
  assert.equal(server.seen.filter(({ path }) => path.endsWith("chat")).length, 2);
});
