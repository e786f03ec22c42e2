import assert from "node:assert/strict";
import { test } from "node:test";
import { payloadLine } from "../src/turn/payloadLine.ts";

const payload = (data: unknown, name = "") => ({ name, data: typeof data === "string" ? data : JSON.stringify(data) });
const line = (...payloads: ReturnType<typeof payload>[]) => payloadLine(payloads, payloads.length - 1);

test("what was said comes first, counters and ids last", () => {
  const type = "response.reasoning_summary_text.delta";
  const said = payload({ type, sequence_number: 23, item_id: "rs_1", obfuscation: "xyz", delta: "The tide" }, type);
  assert.deepEqual(line(said), {
    name: type,
    line: '“The tide” sequence_number:23 item_id:"rs_1" obfuscation:"xyz"',
  });
});

test("a payload without a name has that of its type", () => {
  assert.deepEqual(line(payload({ type: "text-delta", id: "0", delta: "Hi." })), {
    name: "text-delta",
    line: '“Hi.” id:"0"',
  });
  assert.equal(line(payload({ kind: "start", version: 1 })).name, "start");
  assert.equal(line(payload({ type: "a", x: 1 }, "b")).line, 'type:"a" x:1');
});

test("what was in the payloads before is not said again", () => {
  const chunk = (content: string, choice = 0) =>
    payload({ id: "c1", model: "m", choices: [{ index: choice, delta: { content }, logprobs: null }] });
  const whole = '“a” model:"m" id:"c1" index:0';
  assert.equal(line(chunk("a")).line, whole);
  assert.equal(line(chunk("a"), chunk(" there")).line, "“ there” …");
  assert.equal(line(chunk("x", 1), chunk("a")).line, "“a” index:0 …");
  assert.equal(line(payload({ type: "other", id: "c1" }), chunk("a")).line, whole);
});

test("where nothing is new, all of it is said", () => {
  const ping = payload({ type: "ping", at: 3 });
  assert.equal(line(ping, ping).line, "at:3");
});

test("tool arguments and errors say what they are", () => {
  const call = { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"a' } };
  assert.equal(line(payload(call, "content_block_delta")).line, 'partial_json “{"a” type:"input_json_delta" index:1');
  assert.equal(line(payload({ error: { code: 500, message: "broken" } })).line, "message “broken” code:500");
});

test("what is not JSON, and what is cut, is shown as it is", () => {
  assert.deepEqual(line(payload("[DONE]")), { name: "", line: "[DONE]" });
  assert.deepEqual(line(payload('{"a":"b', "x")), { name: "x", line: '{"a":"b' });
  assert.deepEqual(payloadLine([], 3), { name: "", line: "" });
  assert.equal(line(payload({ text: "a\nb\tc" })).line, "“a⏎b⇥c”");
});

test("of a frame of which only the beginning is here, what was said comes first too", () => {
  const whole = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    choices: [{ index: 0, delta: { content: "Tide ".repeat(400_000) } }],
  };
  const cut = { name: "", data: JSON.stringify(whole).slice(0, 65_536), cut: true as const };
  assert.ok(line(cut).line.startsWith("“Tide Tide "));
  const early = { name: "", data: JSON.stringify(whole).slice(0, 60), cut: true as const };
  assert.equal(line(early).line, 'id:"chatcmpl-1" object:"chat.completion.chunk"');
});

test("long values and many fields stay short", () => {
  assert.ok(line(payload({ data: "A".repeat(100_000), text: "end" })).line.startsWith("“end” data:"));
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`f${n}`, n]));
  assert.ok(line(payload(many)).line.length <= 240);
});
