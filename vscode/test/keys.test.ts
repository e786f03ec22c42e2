import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, beforeEach, test } from "node:test";
import type { Running } from "../src/gateway/files.ts";
import { type HandoverOptions, KeyHandover } from "../src/gateway/keys.ts";
import { type ProviderEntry, ProviderRoutes } from "../src/gateway/provider-routes.ts";

// A gateway that writes down who handed it what.
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly key: string;
  readonly body: { window?: string; providers?: ProviderEntry[] };
}
const seen: Seen[] = [];
let status = 200;
const server = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  seen.push({
    method: request.method ?? "",
    url: request.url ?? "",
    key: request.headers.authorization ?? "",
    body: JSON.parse(text || "{}"),
  });
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ version: 1, problems: { openai: "the key is for another host" } }));
});
await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
after(() => server.close());
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const running: Running = { url, key: "made", pid: 7, version: "1" };
const address = { url, key: "made" };

let entries: ProviderEntry[] = [];
let lines: string[] = [];
beforeEach(() => {
  seen.length = 0;
  status = 200;
  entries = [{ name: "openai", keys: ["sk-secret"] }];
  lines = [];
});
const handover = (more: Partial<HandoverOptions> = {}) =>
  new KeyHandover({
    window: "w",
    running: () => running,
    ours: async () => true,
    entries: async () => entries,
    log: (line) => lines.push(line),
    ...more,
  });

test("keys are handed to the gateway that was started, once, and again after a change", async () => {
  const keys = handover();
  await Promise.all([keys.ensure(address), keys.ensure(address)]);
  await keys.ensure(address);
  assert.deepEqual(
    seen.map(({ method, url, key, body }) => [method, url, key, body]),
    [["PUT", "/vscode/keys", "Bearer made", { window: "w", providers: entries }]],
  );
  entries = [];
  keys.changed();
  await keys.ensure(address);
  assert.deepEqual(seen[1]?.body, { window: "w", providers: [] });
});

test("a second request waits for the keys that are being handed over", async () => {
  const reading = Promise.withResolvers<void>();
  const secrets = Promise.withResolvers<ProviderEntry[]>();
  const keys = handover({
    entries: () => {
      reading.resolve();
      return secrets.promise;
    },
  });
  const first = keys.ensure(address);
  await reading.promise;
  let seenBySecond = 0;
  const second = keys.ensure(address).then(() => {
    seenBySecond = seen.length;
  });
  setImmediate(() => secrets.resolve(entries));
  await Promise.all([first, second]);
  assert.equal(seenBySecond, 1);
});

test("a change while the keys are read is handed over, too", async () => {
  let first = true;
  const keys = handover({
    entries: async () => {
      const read = entries;
      if (first) {
        first = false;
        entries = [{ name: "openai", keys: ["sk-newer"] }];
        keys.changed();
      }
      return read;
    },
  });
  await keys.ensure(address);
  await keys.ensure(address);
  assert.deepEqual(
    seen.map(({ body }) => body.providers?.[0]?.keys),
    [["sk-secret"], ["sk-newer"]],
  );
});

test("keys that cannot be read are read again", async () => {
  let broken = true;
  const keys = handover({
    entries: async () => {
      if (broken) throw new Error("the secret storage is locked");
      return entries;
    },
  });
  await keys.ensure(address);
  broken = false;
  await keys.ensure(address);
  assert.equal(seen.length, 1);
});

test("a gateway that is started anew gets them again", async () => {
  let now = running;
  const keys = handover({ running: () => now });
  await keys.ensure(address);
  now = { ...running, key: "made-anew" };
  await keys.ensure({ url, key: "made-anew" });
  assert.deepEqual(
    seen.map(({ key }) => key),
    ["Bearer made", "Bearer made-anew"],
  );
});

test("nobody else gets them: another address, another key, another process, no file", async () => {
  await handover().ensure({ url: `${url}/elsewhere`, key: "made" });
  await handover().ensure({ url, key: "of the settings" });
  await handover({ ours: async () => false }).ensure(address);
  await handover({ running: () => undefined }).ensure(address);
  await handover({ running: () => undefined }).close(address);
  assert.deepEqual(seen, []);
});

test("a refusal is logged without a key, and tried again with the next request", async () => {
  const keys = handover();
  status = 500;
  await keys.ensure(address);
  await assert.rejects(keys.hand(address));
  status = 200;
  await keys.ensure(address);
  assert.equal(seen.length, 3);
  assert.match(lines.join("\n"), /keys were not handed over.*\n.*openai is not used: the key is for another host/);
  assert.equal(lines.join("\n").includes("sk-secret"), false);
});

test("a window that closes is forgotten, and one that lives reports", async () => {
  const keys = handover();
  await keys.ensure(address);
  await keys.renew(address);
  await keys.close(address);
  assert.deepEqual(
    seen.map(({ method, url }) => `${method} ${url}`),
    ["PUT /vscode/keys", "PUT /vscode/keys", "DELETE /vscode/keys?window=w"],
  );
});

test("a gateway without these routes is named, and what to do", async () => {
  status = 404;
  await assert.rejects(new ProviderRoutes(address).providers(), /takes no keys from the editor: restart it\.$/);
});
