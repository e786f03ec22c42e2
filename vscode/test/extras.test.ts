import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure, said } from "../src/errors.ts";
import { finding, redacted, report } from "../src/extras/check.ts";
import { commitMessage, commitPrompt } from "../src/extras/commit.ts";
import { endpointEntry } from "../src/extras/endpoint.ts";
import { Completions, debounce, Filler, placeOf } from "../src/extras/fim.ts";
import { usageReport } from "../src/extras/usage.ts";
import { Client } from "../src/gateway/client.ts";
import { Status, short } from "../src/status.ts";
import { gateway, model } from "./host.ts";

test("the status bar tells state, window, waits and compaction", () => {
  let now = 0;
  const status = new Status(() => now);
  const [chat, other] = [{}, {}];
  assert.equal(status.shown().text, "$(circle-outline) Penstock");
  status.gateway({ is: "ready", url: "http://127.0.0.1:1", own: true });
  const tiny = { name: "T", maxInputTokens: 180_000, maxContextWindowTokens: 200_000 };
  status.used({ prompt_tokens: 11_000, completion_tokens: 1_400, total_tokens: 12_400 }, tiny);
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%)");
  status.begin();
  status.wait(chat, { kind: "wait", seconds: 11.2, message: "Acme's rate limit" });
  assert.equal(status.shown().text, "$(watch) Penstock: waiting 12 s: Acme's rate limit");
  now = 8_000;
  status.silence(other, 5, "Bolt");
  assert.equal(status.shown().text, "$(watch) Penstock: waiting 4 s: Acme's rate limit");
  now = 12_000;
  assert.equal(status.shown().text, "$(watch) Penstock: asking again: Acme's rate limit");
  status.over(chat);
  assert.equal(status.shown().text, "$(watch) Penstock: Bolt has been silent for 9 s");
  assert.equal(status.ticking, true);
  status.over(other);
  assert.equal(status.ticking, false);
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%)");
  status.compacted({ kind: "compacted", before: 190_000, after: 60_000 });
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%), compacted from 190k");
  assert.match(status.shown().tooltip, /shortened the conversation before it sent it, from 190k to 60k tokens/);
  status.begin();
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%)", "that was another question");
  assert.equal(status.shown().warning, false);
  status.tight(170_000, tiny);
  assert.equal(status.shown().warning, true);
  status.begin();
  status.trouble("The gateway refused the key.");
  assert.equal(status.shown().text, "$(warning) Penstock: 12k of 200k (6%)");
  assert.match(status.shown().tooltip, /refused the key/);
  status.trouble("");
  status.gateway({ is: "failed", why: "no Python was found.", again: 0 });
  assert.match(status.shown().tooltip, /no Python was found/);
});

test("numbers are short", () => {
  assert.deepEqual([0, 999, 1_000, 1_500, 12_345, 999_999, 1_048_576].map(short), [
    "0",
    "999",
    "1k",
    "1.5k",
    "12k",
    "1M",
    "1M",
  ]);
});

test("a report has findings with fixes and no secrets", async () => {
  const found = [
    { ok: true, what: "Gateway: http://ann:pass@127.0.0.1:1" } as const,
    await finding("Test", "look", () => Promise.reject(new Error("bad key sk-abcdefghijklmnop Bearer xyz"))),
    { ok: "warning", what: "Utility model: none", fix: "set it" } as const,
  ];
  const text = report(found, { extension: "1", home: "/home/ann/x" }, ["one-time-key"]);
  assert.match(text, /✗ Test: bad key \[secret\] Bearer \[secret\]\n {2}- Fix: look/);
  assert.match(text, /! Utility model: none\n {2}- Fix: set it/);
  assert.equal(text.includes("ann:pass"), false);
  assert.equal(redacted("key one-time-key at /home/ann/x", ["one-time-key"], "/home/ann"), "key [secret] at ~/x");
});

test("the entry for a custom endpoint has every model and no key", () => {
  const entry = JSON.parse(endpointEntry({ url: "http://127.0.0.1:1", key: "secret-key" }, [model()]));
  assert.deepEqual(entry.models, [
    {
      id: "acme/tiny-1",
      name: "Tiny 1",
      url: "http://127.0.0.1:1/v1/chat/completions",
      toolCalling: true,
      vision: true,
      maxInputTokens: 1000,
      maxOutputTokens: 200,
    },
  ]);
  assert.equal(JSON.stringify(entry).includes("secret-key"), false);
});

test("a completion is found again after some of it was typed", () => {
  const known = new Completions();
  known.put(placeOf("const a = ;", 10), "compute(1)");
  assert.equal(known.get(placeOf("const a = ;", 10)), "compute(1)");
  assert.equal(known.get(placeOf("const a = comp;", 14)), "ute(1)");
  assert.equal(known.get(placeOf("const a = xyz;", 13)), undefined);
  assert.equal(known.get(placeOf("const a = compute(1);", 20)), undefined, "nothing is left of it");
  assert.equal(known.get(placeOf("const a = ; // other", 10)), undefined);
  for (let number = 0; number < 100; number++) known.put(placeOf(`x${number}`, 2), "y");
  assert.equal(known.get(placeOf("const a = ;", 10)), undefined, "it is bounded");
});

test("typing on cancels the wait", async () => {
  const controller = new AbortController();
  const waiting = debounce(60_000, controller.signal);
  controller.abort();
  assert.equal(await waiting, false);
  assert.equal(await debounce(1, new AbortController().signal), true);
});

test("somebody who types on ends what is being asked, and what was given once is not asked for again", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const answers = [() => second.abort(), () => '{"choices":[{"text":"compute(1)"}]}'];
  const server = await gateway((_, response) => {
    const answer = answers.shift()?.();
    if (answer) response.end(answer);
  });
  const failures: unknown[] = [];
  const client = new Client({ url: server.url, key: "" });
  const filler = new Filler(
    (body, signal) => client.complete(body, signal),
    (error) => failures.push(error),
  );
  const place = placeOf("const a = ;", 10);
  const fill = (signal: AbortSignal, delay = 1) => filler.fill(place, { model: "acme/fill", delay }, signal);
  const waiting = fill(first.signal, 60_000);
  first.abort();
  assert.equal(await waiting, "");
  assert.equal(server.seen.length, 0, "nobody is asked while somebody types");
  assert.equal(await fill(second.signal), "");
  await server.seen[0]?.closed;
  assert.equal(await fill(new AbortController().signal), "compute(1)");
  assert.equal(await fill(new AbortController().signal), "compute(1)");
  assert.equal(server.seen.length, 2);
  assert.deepEqual(JSON.parse(server.seen[1]?.body ?? ""), {
    model: "acme/fill",
    prompt: "const a = ",
    suffix: ";",
    max_tokens: 128,
    temperature: 0.1,
    stream: false,
  });
  await server.close();
  const other = placeOf("let b = ;", 8);
  assert.equal(await filler.fill(other, { model: "acme/fill", delay: 1 }, new AbortController().signal), "");
  assert.equal(failures.length, 1, "what goes wrong is for the log");
  assert.equal(await filler.fill(other, { model: "", delay: 1 }, new AbortController().signal), "");
});

test("a commit message is the message alone", () => {
  for (const answer of ["Fix the gate", "```\nFix the gate\n```", '"Fix the gate"', "  `Fix the gate` "])
    assert.equal(commitMessage(answer), "Fix the gate");
  assert.equal(commitMessage("Fix\n\nBecause `x` broke"), "Fix\n\nBecause `x` broke");
  const prompt = commitPrompt("d".repeat(50_000), ["Tests: fewer"]);
  assert.ok(prompt.length < 25_000 && prompt.includes("more characters") && prompt.includes("- Tests: fewer"));
});

test("what was thrown is one line", () => {
  assert.equal(said(new Error("a\n  b.")), "a b");
  assert.equal(said("text"), "text");
  assert.equal(new Failure("x").stack, "");
});

test("today's usage says what it does not know", () => {
  const row = { requests: 3, input: 12_000, output: 400, cost: 0.0312, unpriced: 0 };
  const text = usageReport({
    today: row,
    models: [
      { model: "acme/tiny-1", ...row },
      { model: "x", ...row, cost: 0, unpriced: 3 },
    ],
  });
  assert.match(text, /3 requests, 12,400 tokens; spent: \$0\.0312\./);
  assert.match(text, /\| acme\/tiny-1 \| 3 \| 12,000 \| 400 \| \$0\.0312 \|/);
  assert.match(text, /\| x \|.*\| unknown \|/);
  assert.match(usageReport({ today: { ...row, unpriced: 1, cost: 2 } }), /at least \$2\.00/);
  assert.match(usageReport({}), /keeps no journal/);
});
