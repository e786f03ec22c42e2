// Try it: what each client protocol asks, and what errors say.
import assert from "node:assert/strict";
import { test } from "node:test";
import { curlOf, firstModel, refusalWords, type Said, WAYS } from "../src/try/asking.ts";

const TALK: Said[] = [
  { role: "user", text: "one" },
  { role: "assistant", text: "two" },
  { role: "user", text: "three" },
];

for (const way of WAYS) {
  test(`${way.label} carries the model and the whole talk in order`, () => {
    const { path, body, headers } = way.ask("replay/text", TALK);
    const sent = JSON.stringify(body);
    assert.ok((path + sent).includes("replay/text"));
    assert.ok(sent.indexOf("one") < sent.indexOf("two") && sent.indexOf("two") < sent.indexOf("three"));
    assert.match(path, /^\/(v1|v1beta|api|vscode)\//);
    assert.equal(headers["content-type"], "application/json");
  });
}

test("a command for the terminal quotes whatever is said and has no key", () => {
  const [chat] = WAYS;
  const asked = chat?.ask("m", [{ role: "user", text: "it's $(rm -rf)" }]);
  assert.ok(asked);
  const curl = curlOf(asked, "http://127.0.0.1:4480", true);
  assert.ok(curl.includes("it'\\''s $(rm -rf)"));
  assert.ok(curl.includes("$PENSTOCK_KEY") && curl.startsWith("curl -N 'http://127.0.0.1:4480/v1/chat/completions'"));
});

test("a newcomer begins with a packaged answer", () => {
  const models = ["openai/gpt-5", "replay/agent", "replay/reasoning"].map((id) => ({ id }));
  assert.equal(firstModel(models, ""), "replay/reasoning");
  assert.equal(firstModel(models, "openai/gpt-5"), "openai/gpt-5");
  assert.equal(firstModel(models, "gone/away"), "replay/reasoning");
  assert.equal(firstModel([{ id: "a/b" }], ""), "a/b");
  assert.equal(firstModel([], ""), "");
});

const REFUSALS: [string, string][] = [
  ['{"error":{"message":"no such model","code":"model_not_found"}}', "no such model"],
  ['{"type":"error","error":{"type":"x","message":"too long"}}', "too long"],
  ['[{"error":{"code":400,"message":"in a list"}}]', "in a list"],
  ['{"error":"plain"}', "plain"],
  ['{"message":"flat"}', "flat"],
  ["plain text", "plain text"],
  ["<html><body>502</body></html>", "The gateway said 502."],
  ["", "The gateway said 502."],
  ["{}", "The gateway said 502."],
  ["null", "The gateway said 502."],
];

for (const [body, words] of REFUSALS) {
  test(`an error's words: ${body}`, () => assert.equal(refusalWords(502, body), words));
}
