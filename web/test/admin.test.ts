import assert from "node:assert/strict";
import { test } from "node:test";
import { AdminError, askAll, type KeyRow } from "../src/admin/api.ts";
import { auditFile, describeChange } from "../src/admin/describeAudit.ts";
import { describeInspectorAccess, matchesKey } from "../src/admin/keyDescription.ts";
import { changes, describeUsage, draftOf, LIMIT_NAMES, limitLabel, localMoment, share } from "../src/admin/limits.ts";
import { problemOf } from "../src/admin/problems.ts";

const ROW: KeyRow = {
  name: "ann",
  models: ["gpt-*", "o3"],
  tenant: "",
  team: "lab",
  role: "user",
  inspect: "own",
  inspect_keep: false,
  limits: { day_cost: 20, requests: 0 },
  max_output: 0,
  expires: "2099-01-31T12:00:00Z",
  expired: false,
  note: "",
  created: "",
  previous: [],
  source: "store",
  etag: "e",
};

test("what is used is one line", () => {
  const one = { kind: "cost", window: 86_400, used: 4, most: 20, resets: 86_400 } as const;
  assert.equal(describeUsage(one), "$4.00 of $20.00 a day");
  assert.equal(share(one), 0.2);
  assert.equal(describeUsage({ ...one, kind: "tokens", window: 0, used: 12_300 }), "12.3k of 20 tokens in total");
  assert.equal(describeUsage({ ...one, kind: "concurrent", window: null }), "4 of 20 at once");
  assert.equal(share({ ...one, used: 50 }), 1);
});

test("every limit of the API has a place in the form", () => {
  assert.equal(LIMIT_NAMES.length, 15);
  assert.ok(!LIMIT_NAMES.includes("cost"));
});

test("only what was changed is sent, and empty is the default", () => {
  const before = draftOf(ROW);
  assert.deepEqual(changes(before, before), {});
  const draft = {
    ...before,
    team: "",
    models: " o3 , ",
    max_output: "4096",
    expires: "",
    limits: { ...before.limits, day_cost: "", week_tokens: "5000" },
  };
  assert.deepEqual(changes(draft, before), {
    team: null,
    models: ["o3"],
    max_output: 4096,
    expires: null,
    limits: { day_cost: null, week_tokens: 5000 },
  });
  assert.deepEqual(changes({ ...draftOf(null), name: "new", role: "viewer" }, draftOf(null)), { role: "viewer" });
});

test("what the inspector does with a key is sent if it was changed", () => {
  const before = draftOf({ ...ROW, inspect_keep: true });
  assert.deepEqual(changes({ ...before, inspect_keep: false, inspect: "all", tenant: " t " }, before), {
    inspect_keep: false,
    inspect: "all",
    tenant: "t",
  });
  assert.deepEqual(describeInspectorAccess(ROW), []);
  assert.deepEqual(describeInspectorAccess({ inspect: "all", inspect_keep: true }), [
    "its turns are kept",
    "sees every key's turns",
  ]);
});

test("keys are found by each of their values", () => {
  const row = { ...ROW, note: "The Build", tenant: "acme" };
  for (const text of ["", "ANN", "lab build", "acme", "gpt-", " user  o3 "]) assert.ok(matchesKey(row, text), text);
  for (const text of ["bob", "lab bob", "admin"]) assert.ok(!matchesKey(row, text), text);
});

test("an error stands at its value, without the value's name in the API", () => {
  assert.deepEqual(problemOf(new AdminError(400, "limits.day_cost: expected a number", "limits.day_cost")), {
    field: "limits.day_cost",
    message: "Expected a number",
  });
  assert.deepEqual(problemOf(new TypeError("failed to fetch")), { field: "", message: "The gateway does not answer." });
});

test("every limit has its label", () => {
  assert.equal(limitLabel("day_cost"), "Dollars a day");
  assert.equal(limitLabel("requests"), "Requests a minute");
  assert.equal(limitLabel("concurrent"), "Requests at once");
  assert.equal(new Set(LIMIT_NAMES.map(limitLabel)).size, LIMIT_NAMES.length);
});

test("the audit log says which values were changed", () => {
  const change = { kind: "key", name: "ci" };
  const before = { models: ["*"], limits: { day_cost: 5, requests: 1 }, note: "x" };
  const after = { models: ["a", "b"], limits: { day_cost: 10, requests: 1 }, inspect_keep: true };
  assert.deepEqual(describeChange({ ...change, before, after }), [
    "limits.day_cost: 5 → 10",
    "note: x → –",
    "inspect_keep: – → true",
    "models: * → a, b",
  ]);
  assert.deepEqual(describeChange({ ...change, after: { note: "x", previous: [{ hash: "h" }] } }), [
    "note: x",
    'previous: [{"hash":"h"}]',
  ]);
  assert.deepEqual(describeChange({ ...change, before: { note: "x" } }), ["note: x"]);
  const row = { id: 1, time: 0, actor: "cli:a", action: "key.add", changes: [change] };
  assert.equal(auditFile([{ ...row, id: 2 }, row]), `${JSON.stringify(row)}\n${JSON.stringify({ ...row, id: 2 })}\n`);
});

test("a moment survives the form", () => {
  const date = new Date("2099-01-31T12:00:00Z");
  assert.equal(new Date(localMoment(date)).getTime(), date.getTime());
  const draft = { ...draftOf(ROW), note: "x" };
  assert.equal(changes({ ...draft, expires: localMoment(date) }, draftOf(null)).expires, "2099-01-31T12:00:00.000Z");
});

test("all pages of a list are read, and too many are told", async (t) => {
  const asked: string[] = [];
  let pages = 7;
  t.mock.method(globalThis, "fetch", async (url: string) => {
    asked.push(String(url));
    const next = asked.length < pages ? `n${asked.length}` : null;
    return Response.json({ data: [asked.length], next });
  });
  assert.deepEqual(await askAll<number>("keys"), [1, 2, 3, 4, 5, 6, 7]);
  assert.match(asked[6] ?? "", /keys\?limit=1000&after=n6$/);
  pages = Number.POSITIVE_INFINITY;
  await assert.rejects(askAll<number>("keys"), /more than \d+ keys/);
});
