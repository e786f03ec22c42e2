import assert from "node:assert/strict";
import type * as http from "node:http";
import { test } from "node:test";
import { type Finding, verdict } from "../src/extras/check.ts";
import { checkPage } from "../src/extras/checkPage.ts";
import { helpFor } from "../src/extras/help.ts";
import { checkProviders } from "../src/extras/providerChecks.ts";
import { Client } from "../src/gateway/client.ts";
import { gateway, model } from "./host.ts";

const choice = { show: [], few: 24, utility: "", named: [] };

/** A gateway with providers: what each is answered, by name; `held` are answered only once all were asked. */
async function withProviders(rows: object[], answers: Record<string, object>, run: (client: Client) => Promise<void>) {
  const held: (() => void)[] = [];
  const server = await gateway((seen, response: http.ServerResponse) => {
    if (seen.path === "/vscode/providers") return void response.end(JSON.stringify({ providers: rows }));
    const { provider } = JSON.parse(seen.body);
    held.push(() => void response.end(JSON.stringify(answers[provider])));
    if (held.length === Object.keys(answers).length) for (const answer of held) answer();
  });
  await run(new Client({ url: server.url, key: "" }));
  await server.close();
}

test("every provider is tested, all at the same time, and a bad key is a failure", async () => {
  const rows = [
    { name: "acme", label: "Acme", configured: true, source: "editor", keys_url: "https://acme.example/keys" },
    { name: "bolt", label: "Bolt", configured: true, source: "environment", variable: "BOLT_API_KEY" },
    { name: "core", label: "Core", configured: false, problem: "penstock.toml sends requests elsewhere." },
    { name: "dune", label: "Dune", configured: false },
  ];
  const answers = {
    acme: { ok: false, kind: "auth", message: "Acme refused the key." },
    bolt: { ok: true, kind: "", message: "Bolt answers: 12 models." },
  };
  await withProviders(rows, answers, async (client) => {
    const [acme, bolt, core, ...rest] = await checkProviders(client, [], choice);
    assert.deepEqual(rest, []);
    assert.deepEqual(acme, {
      ok: false,
      what: "Acme refused the key.",
      fix: "Change the key of Acme, or remove it.",
      actions: [
        { label: "Change Key", command: "penstock.addProvider", args: ["acme"] },
        { label: "Manage Providers", command: "penstock.manageProviders" },
      ],
      link: { label: "Get a key", url: "https://acme.example/keys" },
    });
    assert.deepEqual(bolt, { ok: true, what: "Bolt answers: 12 models. (key from BOLT_API_KEY)" });
    assert.equal(core?.what, "Core: penstock.toml sends requests elsewhere.");
  });
});

test("no key is not a set-up that works", async () => {
  await withProviders([{ name: "acme", label: "Acme", configured: false }], {}, async (client) => {
    const found = await checkProviders(client, [model({ played: true })], choice);
    assert.equal(verdict(found).good, false);
    assert.match(found[0]?.what ?? "", /there is none yet/);
  });
});

test("a gateway that lists no providers is asked for an answer of each", async () => {
  const server = await gateway((seen, response) => {
    if (seen.path === "/vscode/providers") return void response.writeHead(404).end("{}");
    const good = JSON.parse(seen.body).model === "acme/tiny-1";
    if (good)
      response.end('{"kind":"start","version":1}\n{"kind":"text","value":"OK"}\n{"kind":"end","reason":"stop"}\n');
    else response.writeHead(401).end('{"kind":"error","fault":"auth","message":"bad key"}');
  });
  const models = [
    model({ id: "acme/tiny-1", detail: "Acme" }),
    model({ id: "bolt/one", detail: "Bolt" }),
    model({ id: "replay/text", detail: "Replay", played: true }),
  ];
  const found = await checkProviders(new Client({ url: server.url, key: "" }), models, choice);
  await server.close();
  assert.deepEqual(
    found.map(({ ok, what }) => [ok, what.slice(0, 30)]),
    [
      [true, "Acme: acme/tiny-1 answered, wi"],
      [false, "Bolt: Bolt refused the key (ba"],
    ],
  );
});

test("the page has a button for each fix, and no script", () => {
  const found: Finding[] = [
    { ok: true, what: "Gateway: <http://127.0.0.1>" },
    {
      ok: false,
      what: "Acme: refused",
      fix: "Change it.",
      actions: [{ label: "Change Key", command: "penstock.addProvider", args: ["acme"] }],
      link: { label: "Get a key", url: "https://acme.example/keys" },
    },
    { ok: "warning", what: "Utility model: none", fix: "Set it." },
  ];
  const text = checkPage(found, { extension: "1" }, "once");
  assert.match(text, /1 of 3 checks failed/);
  assert.match(text, /href="command:penstock\.addProvider\?%5B%22acme%22%5D">Change Key</);
  assert.match(text, /href="https:\/\/acme\.example\/keys">Get a key</);
  assert.match(text, /href="command:penstock\.copyReport">Copy Report</);
  assert.match(text, /Gateway: &lt;http/);
  assert.equal(/<script|style="/.test(text), false);
  assert.deepEqual(verdict(found.slice(0, 1)), { good: true, text: "The set-up works." });
  assert.equal(verdict([found[2] as Finding]).text, "The set-up works. 1 thing could be better.");
});

test("each fault has the help that fits it", () => {
  const first = (fault: string, message: string) => helpFor(fault, message)[0]?.label;
  assert.equal(first("auth", "The gateway refused the key."), "Set Key");
  assert.equal(first("other", "The gateway cannot be started: penstock.toml:3: unknown key."), "Open Configuration");
  assert.equal(first("other", "The gateway cannot be started: no Python was found; install uv."), "Show How");
  assert.equal(first("network", "The gateway does not answer."), "Check Set-up");
});
