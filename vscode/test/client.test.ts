import assert from "node:assert/strict";
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import { Client } from "../src/gateway/client.ts";
import { ask, baseOf, Unreachable } from "../src/gateway/http.ts";
import { gateway, model, type Say, type Server } from "./host.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});
async function client(say: Say, path = ""): Promise<Client> {
  const server = await gateway(say);
  servers.push(server);
  return new Client({ url: server.url + path, key: "k" });
}

test("the list of models, without rows that are none", async () => {
  const rows = [model(), { id: 1 }, null, { id: "x", name: "x" }];
  const found = await (
    await client((_, response) => void response.end(JSON.stringify({ version: 1, models: rows })))
  ).models();
  assert.deepEqual(found, [model()]);
});

test("a list that is none says so", async () => {
  await assert.rejects(
    (await client((_, response) => void response.end("{}"))).models(),
    /The gateway failed .*no models in it/,
  );
  const locked = await client(
    (_, response) => void response.writeHead(401).end('{"error":{"message":"a key is needed"}}'),
  );
  await assert.rejects(
    locked.models(),
    /The gateway refused the key \(401: a key is needed\): run “Penstock: Set Key of the Gateway”\./,
  );
});

test("a gateway behind a path is asked there", async () => {
  let path = "";
  await (
    await client((seen, response) => {
      path = seen.path;
      response.end('{"models":[]}');
    }, "/deep/er")
  ).models();
  assert.equal(path, "/deep/er/vscode/models");
});

test("a policy for the length of prompts is asked for", async () => {
  const asked: string[] = [];
  const gateway = await client((seen, response) => {
    asked.push(seen.path);
    response.end('{"models":[]}');
  });
  await gateway.models(undefined, { maxInput: "context-window" });
  await gateway.models(undefined, { maxInput: "" });
  assert.deepEqual(asked, ["/vscode/models?max_input=context-window", "/vscode/models"]);
});

test("a policy that the gateway does not take is said with the name of the setting", async () => {
  const error = '{"error":{"message":"max_input: half is not a policy"}}';
  const gateway = await client((_, response) => void response.writeHead(400).end(error));
  await assert.rejects(gateway.models(undefined, { maxInput: "half" }), {
    message:
      "The gateway does not take penstock.models.maxInput (max_input: half is not a policy): correct the setting.",
  });
  await assert.rejects(gateway.models(), /The gateway did not accept the request/);
});

test("a count of a whole prompt is read as far as it is one", async () => {
  const prompt = { tokens: 12, method: "hybrid", confidence: 0.9, low: 11, high: 13 };
  const answers: [number, object | string, unknown][] = [
    [200, { version: 1, prompt, limit: 900, assumed: false }, { prompt, limit: 900, assumed: false }],
    [200, { version: 1, prompt, limit: null, assumed: true, warning: null }, { prompt, assumed: true }],
    [200, { version: 1, counts: [], exact: false }, undefined],
    [200, { version: 1, prompt: { tokens: "12" } }, undefined],
    [200, "not JSON", undefined],
    [400, { version: 1, prompt, limit: 900 }, undefined],
  ];
  for (const [status, body, found] of answers) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const gateway = await client((_, response) => void response.writeHead(status).end(text));
    assert.deepEqual(await gateway.count("{}", new AbortController().signal), found);
  }
});

test("health is a yes or a no", async () => {
  assert.equal(await (await client((_, response) => void response.end('{"status":"ok"}'))).healthy(), true);
  assert.equal(await (await client((_, response) => void response.writeHead(503).end())).healthy(), false);
  assert.equal(await new Client({ url: "http://127.0.0.1:9", key: "" }).healthy(), false);
});

test("silence has a limit", async () => {
  const server = await gateway(() => {});
  servers.push(server);
  await assert.rejects(ask({ url: server.url, key: "" }, "x", { patience: 50 }), Unreachable);
});

test("a completion is text, or a chat's message", async () => {
  const text = await client((_, response) => void response.end('{"choices":[{"text":"abc"}]}'));
  assert.equal(await text.fill({}, new AbortController().signal), "abc");
  const chat = await client((_, response) => void response.end('{"choices":[{"message":{"content":"def"}}]}'));
  assert.equal(await chat.fill({}, new AbortController().signal), "def");
});

test("addresses as people write them", () => {
  for (const text of ["127.0.0.1:4480", " http://127.0.0.1:4480/ ", "http://127.0.0.1:4480/v1/"])
    assert.equal(baseOf(text, "x"), "http://127.0.0.1:4480");
  assert.equal(baseOf("https://gateway.example.org/deep", "x"), "https://gateway.example.org/deep");
  for (const text of ["ftp://a", "http://a b", "//"])
    assert.throws(() => baseOf(text, "penstock.gateway.url"), /^Penstock: penstock.gateway.url is not an address/);
});

test("whose key is refused can be told", async () => {
  const of = (status: number) => client((_, response) => void response.writeHead(status).end('{"models":[]}'));
  assert.deepEqual([await (await of(401)).shut(), await (await of(200)).shut()], [true, false]);
  assert.equal(await new Client({ url: "http://127.0.0.1:9", key: "" }).shut(), false);
});

test("a body that is refused before it is all sent is a refusal, and nothing else", async () => {
  const server = http.createServer((request, response) => {
    request.once("data", () => {
      response.writeHead(413, { connection: "close" }).end('{"error":{"message":"the body is over 10 bytes"}}');
      response.once("finish", () => setTimeout(() => request.socket.resetAndDestroy(), 20));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const body = JSON.stringify("x".repeat(30_000_000));
  const [line] = await Array.fromAsync(new Client({ url, key: "" }).chat(body, new AbortController().signal));
  assert.deepEqual(line, { kind: "error", fault: "too-large", message: "the body is over 10 bytes", status: 413 });
  await new Promise((wake) => setTimeout(wake, 50));
  server.closeAllConnections();
  server.close();
});
