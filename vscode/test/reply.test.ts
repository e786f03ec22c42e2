import assert from "node:assert/strict";
import { test } from "node:test";
import type { HostClasses } from "../src/chat/host.ts";
import { Reply, type ReplyOptions } from "../src/chat/reply.ts";
import { Failure } from "../src/errors.ts";
import type { Line } from "../src/wire.ts";
import { bare, Call, Data, full, Text, Thinking } from "./host.ts";

const START: Line = { kind: "start", version: 1, id: "r1" };
const END: Line = { kind: "end", reason: "stop" };
const USAGE: Line = { kind: "usage", value: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } };

function play(rows: readonly Line[], more: Partial<ReplyOptions> = {}): unknown[] {
  const parts: unknown[] = [];
  const reply = new Reply({
    host: full as HostClasses,
    report: (part) => parts.push(part),
    provider: "Acme",
    model: "acme/tiny-1",
    estimate: () => ({ prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 }),
    ...more,
  });
  for (const row of rows) reply.take(row);
  reply.finish();
  return parts;
}

const usageOf = (parts: readonly unknown[]) =>
  parts
    .filter((part): part is Data => part instanceof Data && part.mimeType === "usage")
    .map(({ data }) => JSON.parse(Buffer.from(data).toString()));

test("each kind of line becomes its part", () => {
  const parts = play([
    START,
    { kind: "thinking", value: "Hm.", id: "t", metadata: { signature: "s" } },
    { kind: "text", value: "Hello" },
    { kind: "call", callId: "gw-1", name: "look", input: { at: "Oban" } },
    { kind: "data", data: "AQI=", mimeType: "image/png" },
    USAGE,
    END,
  ]);
  assert.deepEqual(parts.slice(0, 4), [
    new Thinking("Hm.", "t", { signature: "s" }),
    new Text("Hello"),
    new Call("gw-1", "look", { at: "Oban" }),
    new Data(new Uint8Array([1, 2]), "image/png"),
  ]);
  assert.deepEqual(usageOf(parts), [{ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }]);
});

test("the mark of the turn comes with every reply that can be shown", () => {
  const [, mark] = play([START, { kind: "text", value: "x" }, USAGE, END]).filter((part) => part instanceof Data);
  assert.equal(mark?.mimeType, "stateful_marker");
  assert.equal(Buffer.from(mark?.data ?? []).toString(), "acme/tiny-1\\r1");
});

test("a call is given once", () => {
  const call: Line = { kind: "call", callId: "gw-1", name: "look", input: {} };
  const parts = play([START, call, call, { ...call, callId: "gw-2" }, END]);
  assert.deepEqual(
    parts.filter((part) => part instanceof Call).map(({ callId }) => callId),
    ["gw-1", "gw-2"],
  );
});

test("usage is estimated where there was none, or not all of it", () => {
  const estimated = { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 };
  assert.deepEqual(usageOf(play([START, { kind: "text", value: "x" }, END])), [estimated]);
  const half: Line = { kind: "usage", value: { prompt_tokens: 3 } };
  assert.deepEqual(usageOf(play([START, { kind: "text", value: "x" }, half, END])), [estimated]);
});

test("a sum that is missing is added up", () => {
  const parts = play([
    START,
    { kind: "text", value: "x" },
    { kind: "usage", value: { prompt_tokens: 3, completion_tokens: 2 } },
    END,
  ]);
  assert.equal(usageOf(parts)[0].total_tokens, 5);
});

test("a prompt of no tokens is counted here", () => {
  const nobody: Line = { kind: "usage", value: { prompt_tokens: 0, completion_tokens: 2, total_tokens: 2 } };
  const [usage] = usageOf(play([START, { kind: "text", value: "x" }, nobody, END]));
  assert.deepEqual(usage, { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 });
});

test("thinking in a host without the class is dropped, or said as text once a block", () => {
  const rows: Line[] = [
    START,
    { kind: "thinking", value: "Hm" },
    { kind: "thinking", value: "m." },
    { kind: "text", value: "Hi" },
    END,
  ];
  const texts = (parts: unknown[]) => parts.filter((part) => part instanceof Text).map(({ value }) => value);
  assert.deepEqual(texts(play(rows, { host: bare })), ["Hi"]);
  assert.deepEqual(texts(play(rows, { host: bare, reasoning: "text" })), ["[Thinking] Hm", "m.", "\n\n", "Hi"]);
  assert.deepEqual(
    play(rows, { reasoning: "drop" }).some((part) => part instanceof Thinking),
    false,
  );
});

test("a reply that nothing can be shown of is an error with its reason", () => {
  assert.throws(
    () =>
      play([
        START,
        { kind: "thinking", value: "Hm" },
        { kind: "end", reason: "length", message: "The output limit was reached." },
      ]),
    /^Penstock: The output limit was reached\.$/,
  );
  assert.throws(() => play([START, { kind: "text", value: " \n" }, END]), /Acme gave neither text nor a call \(stop\)/);
});

test("a refusal is shown as text", () => {
  assert.deepEqual(
    play([START, { kind: "text", value: "I can't.", refusal: true }, USAGE, { kind: "end", reason: "refusal" }])[0],
    new Text("I can't."),
  );
});

test("an error in mid-stream is thrown, after what was said", () => {
  const parts: unknown[] = [];
  const error: Line = { kind: "error", fault: "overloaded", message: "Too busy.", status: 529, requestId: "req_1" };
  assert.throws(
    () => play([START, { kind: "text", value: "So" }, error], { report: (part) => parts.push(part) }),
    (failure) =>
      failure instanceof Failure &&
      failure.stack === "" &&
      failure.message ===
        "Acme is overloaded (529: Too busy): try again in a minute or pick another model (request req_1).",
  );
  assert.deepEqual(parts, [new Text("So")]);
});

test("a stream that stops is an error", () => {
  assert.throws(() => play([START, { kind: "text", value: "So" }]), /Acme broke off before the end/);
});

test("a call that never became whole is logged and not run", () => {
  const log: string[] = [];
  const parts = play([START, { kind: "text", value: "x" }, { kind: "cut", callId: "gw-1", name: "write" }, END], {
    log: (line) => log.push(line),
  });
  assert.equal(
    parts.some((part) => part instanceof Call),
    false,
  );
  assert.match(log[0] ?? "", /gw-1 of write/);
});
