import assert from "node:assert/strict";
import { test } from "node:test";
import { measure } from "../src/chat/preflight.ts";
import { Failure, said } from "../src/errors.ts";
import { finding, redacted, report } from "../src/extras/check.ts";
import { endpointEntry } from "../src/extras/endpoint.ts";
import { inputLimit } from "../src/models.ts";
import { Status, short } from "../src/status.ts";
import { model } from "./host.ts";

test("the status bar tells state, window, waits and compaction", () => {
  let now = 0;
  const status = new Status(() => now);
  const [chat, other] = [{}, {}];
  assert.equal(status.shown().text, "$(circle-outline) Penstock");
  status.gateway({ is: "ready", url: "http://127.0.0.1:1", own: true });
  const tiny = model({ name: "T", maxInputTokens: 180_000, maxContextWindowTokens: 200_000 });
  status.begin(chat);
  status.used(chat, { prompt_tokens: 11_000, completion_tokens: 1_400, total_tokens: 12_400 }, tiny);
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%)");
  assert.match(
    status.shown().tooltip,
    /Last reply: 11,000 tokens in, 1,400 out \(actual\)\. The context window of T is 200,000 tokens\./,
  );
  status.begin(other);
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
  status.begin(chat);
  assert.equal(status.shown().text, "$(pass) Penstock: 12k of 200k (6%)", "that was another question");
  assert.equal(status.shown().warning, false);
  status.trouble("The gateway refused the key.");
  assert.equal(status.shown().text, "$(warning) Penstock: 12k of 200k (6%)");
  assert.match(status.shown().tooltip, /refused the key/);
  status.trouble("");
  status.gateway({ is: "failed", why: "no Python was found.", again: 0 });
  assert.match(status.shown().tooltip, /no Python was found/);
});

test("the status bar tells the size of a prompt, and warns with numbers near the limit", () => {
  const status = new Status();
  const [first, second] = [{}, {}];
  const tiny = model({ name: "T", maxInputTokens: 180_000, maxContextWindowTokens: 200_000 });
  const size = (tokens: number) => ({ tokens, method: "hybrid", low: tokens - 500, high: tokens + 700 });
  status.begin(first);
  status.prompt(first, measure(size(12_345), 180_000), tiny);
  assert.equal(status.shown().text, "$(circle-outline) Penstock: prompt 12k of 180k (7%)");
  assert.match(
    status.shown().tooltip,
    /as counted before it was answered: 12,345 tokens \(hybrid, 11,845 to 13,045\) of 180,000 \(7%\)\./,
  );
  status.begin(second);
  status.prompt(first, measure(size(12_345), 180_000), tiny);
  assert.equal(status.shown().text, "$(circle-outline) Penstock", "a count that came late is of another question");
  status.prompt(second, measure(size(170_000), 180_000), tiny);
  assert.equal(status.shown().text, "$(warning) Penstock: prompt 170k of 180k (94%), near the limit");
  assert.equal(status.shown().warning, true);
  status.prompt(second, measure(size(190_000), 180_000), tiny);
  assert.equal(status.shown().text, "$(warning) Penstock: prompt 190k of 180k (106%), over the limit");
  assert.match(
    status.shown().tooltip,
    /The prompt is over the limit of T: 190,000 tokens \(hybrid, 189,500 to 190,700\) of 180,000 \(106%\)\. It was sent\. If the provider refuses it, start a new chat/,
  );
  status.used(second, { prompt_tokens: 175_000, completion_tokens: 1_000, total_tokens: 176_000 }, tiny);
  assert.equal(status.shown().text, "$(warning) Penstock: 176k of 200k (88%), near the limit");
  assert.match(status.shown().tooltip, /near the limit of T: 175,000 tokens \(actual\) of 180,000 \(97%\)/);
  status.used(second, { prompt_tokens: 100_000, completion_tokens: 1_000, total_tokens: 101_000 }, tiny);
  assert.equal(status.shown().warning, false, "the provider's own count goes before an estimate");
});

test("an unknown window is called so, has no share, and is never warned of", () => {
  const status = new Status();
  const chat = {};
  const unknown = model({ name: "U", maxInputTokens: 128_000, assumed: true });
  status.begin(chat);
  status.prompt(chat, measure({ tokens: 500_000, method: "estimated" }, inputLimit(unknown)), unknown);
  assert.equal(status.shown().text, "$(circle-outline) Penstock: prompt 500k tokens");
  assert.equal(status.shown().warning, false);
  status.used(chat, { prompt_tokens: 510_000, completion_tokens: 10, total_tokens: 510_010 }, unknown);
  assert.equal(status.shown().text, "$(circle-outline) Penstock: 510k tokens");
  assert.match(status.shown().tooltip, /The context window of U is not known: 128,200 tokens are assumed\./);
  assert.equal(status.shown().warning, false);
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

test("what was thrown is one line", () => {
  assert.equal(said(new Error("a\n  b.")), "a b");
  assert.equal(said("text"), "text");
  assert.equal(new Failure("x").stack, "");
});
