import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute } from "../src/router.ts";

test("addresses and back", () => {
  assert.deepEqual(parseRoute(""), { view: "streams", id: "", query: {} });
  assert.deepEqual(parseRoute("#/turn/req_1?as=vscode"), { view: "turn", id: "req_1", query: { as: "vscode" } });
  assert.deepEqual(parseRoute("#/turn/%E0%A4%A"), { view: "turn", id: "%E0%A4%A", query: {} });
  for (const [id, query] of [
    ["a/b?c#d %", { as: "x&y=z", q: "model:a b" }],
    ["", {}],
  ] as const) {
    assert.deepEqual(parseRoute(formatRoute("turn", id, query)), { view: "turn", id, query });
  }
});

test("a view that there is not is named, and what may be a secret is not", () => {
  assert.deepEqual(parseRoute("#/nowhere/1"), { view: "unknown", id: "nowhere", query: {} });
  assert.equal(parseRoute("#/constructor").view, "unknown");
  assert.deepEqual(parseRoute("#session=abc&x"), { view: "unknown", id: "session", query: {} });
});

test("a view is found by its title too", () => {
  assert.deepEqual(parseRoute("#/manage?tab=teams"), { view: "keys", id: "", query: { tab: "teams" } });
});

test("what is empty is not said", () => {
  assert.equal(formatRoute("streams", "", { q: "", state: "running" }), "#/streams?state=running");
});
