import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute } from "../src/router.ts";

test("addresses and back", () => {
  assert.deepEqual(parseRoute(""), { view: "streams", id: "", query: {} });
  assert.deepEqual(parseRoute("#/nowhere"), { view: "streams", id: "", query: {} });
  assert.deepEqual(parseRoute("#/turn/req_1?as=vscode"), { view: "turn", id: "req_1", query: { as: "vscode" } });
  assert.deepEqual(parseRoute("#/turn/%E0%A4%A"), { view: "turn", id: "%E0%A4%A", query: {} });
  for (const [id, query] of [
    ["a/b?c#d %", { as: "x&y=z", q: "model:a b" }],
    ["", {}],
  ] as const) {
    assert.deepEqual(parseRoute(formatRoute("turn", id, query)), { view: "turn", id, query });
  }
});

test("what is empty is not said", () => {
  assert.equal(formatRoute("streams", "", { q: "", state: "running" }), "#/streams?state=running");
});
