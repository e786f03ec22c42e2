// Try it: the request that settings and messages make, what was said before, and what errors say.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../src/api/types.ts";
import { firstModel } from "../src/try/firstModel.ts";
import { openCalls, spokenMessages } from "../src/try/history.ts";
import { describeRefusal } from "../src/try/refusals.ts";
import { chatBody, countSettings, NO_SETTINGS, problemOf, settingsFrom } from "../src/try/settings.ts";

const SETTINGS = {
  ...NO_SETTINGS,
  system: "Be brief.",
  tools: '[{"name": "level", "description": "d", "parameters": {"type": "object"}}]',
  schema: '{"type": "object"}',
  temperature: "0.5",
  maxOutput: "100",
  effort: "low",
  stop: "END\nSTOP",
};

test("settings become fields of a Chat request, and back", () => {
  const body = chatBody("m", SETTINGS, [{ role: "user", content: "Hi" }]);
  assert.deepEqual(body.messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hi" },
  ]);
  assert.deepEqual(body.tools, [
    { type: "function", function: { name: "level", description: "d", parameters: { type: "object" } } },
  ]);
  assert.equal(body.temperature, 0.5);
  assert.equal(body.max_completion_tokens, 100);
  assert.equal(body.reasoning_effort, "low");
  assert.deepEqual(body.stop, ["END", "STOP"]);
  assert.equal((body.response_format as { type: string }).type, "json_schema");
  const { settings, messages } = settingsFrom(body);
  assert.deepEqual(messages, [{ role: "user", content: "Hi" }]);
  assert.deepEqual(chatBody("m", settings, messages), body);
  assert.equal(countSettings(SETTINGS), 7);
  assert.deepEqual(Object.keys(chatBody("m", NO_SETTINGS, [])), ["model", "stream", "stream_options", "messages"]);
});

test("a turn that is opened loses no field", () => {
  const body = {
    model: "m",
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
      { role: "developer", content: "Now at length." },
    ],
    tools: [{ type: "function", function: { name: "level", parameters: {} } }],
    tool_choice: { type: "function", function: { name: "level" } },
    parallel_tool_calls: false,
    presence_penalty: 0.5,
    max_completion_tokens: 9,
    max_tokens: 8,
    reasoning_effort: "own",
    temperature: 0,
    stop: ["\n\n", "\n\nHuman:", '"', "END"],
    response_format: {
      type: "json_schema",
      json_schema: { name: "level", description: "d", strict: false, schema: { type: "object" } },
    },
  };
  const { settings, messages } = settingsFrom(body);
  assert.equal(settings.schema, JSON.stringify({ type: "object" }, null, 2));
  assert.equal(settings.stop, '"\\n\\n"\n"\\n\\nHuman:"\n"\\""\nEND');
  assert.deepEqual(chatBody("m", settings, messages), body);
  for (const response_format of [{ type: "json_object" }, { type: "text" }, { type: "json_schema", json_schema: {} }]) {
    const other = { ...body, response_format };
    assert.deepEqual(chatBody("m", settingsFrom(other).settings, messages), other);
  }
  assert.equal(problemOf("others", "[1]"), "expected a JSON object");
});

test("what is wrong with a setting is said", () => {
  assert.equal(problemOf("tools", "[{]"), "this is not JSON");
  assert.equal(problemOf("tools", '[{"parameters": {}}]'), "every tool needs a name");
  assert.equal(problemOf("tools", '{"name": "one"}'), "");
  assert.equal(problemOf("schema", "[]"), "expected a JSON object");
  assert.equal(problemOf("temperature", "hot"), "expected a number");
  assert.equal(problemOf("temperature", ""), "");
});

function event(type: string, body: Record<string, unknown>): Event {
  return { frame: null, type, body: { type, ...body } };
}

test("texts, images, calls and their results are what was said", () => {
  const events = [
    event("start", {}),
    event("text-start", { index: 0 }),
    event("text-delta", { index: 0, text: "I look." }),
    event("text-end", { index: 0 }),
    event("call-start", { index: 1, id: "c1", name: "level" }),
    event("call-delta", { index: 1, json: '{"station": 4}' }),
    event("call-end", { index: 1, json: '{"station": 4}' }),
    event("finish", { reason: "tool-calls" }),
  ];
  const exchange = { said: "How high?", images: ["data:image/png;base64,AA=="], results: [], events };
  const calls = openCalls(events);
  assert.deepEqual(
    calls.map(({ id, name }) => [id, name]),
    [["c1", "level"]],
  );
  const [asked, answer] = spokenMessages([exchange], [{ id: "c1", name: "level", text: "2 m" }]);
  assert.deepEqual(asked?.content, [
    { type: "text", text: "How high?" },
    { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
  ]);
  assert.match(JSON.stringify(answer?.tool_calls), /"id":"c1"/);
  assert.equal(spokenMessages([exchange], [])[1]?.tool_calls, undefined); // a call without a result is left out
  assert.deepEqual(spokenMessages([{ ...exchange, events: [] }], []), []);
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
  test(`an error's words: ${body}`, () => assert.equal(describeRefusal(502, body), words));
}
