import assert from "node:assert/strict";
import { test } from "node:test";
import { commandLink, html, page } from "../src/extras/html.ts";
import { questionOf, RecentRequests } from "../src/extras/recent.ts";
import { cachedText, costText, dollars, usageSummary } from "../src/extras/usage.ts";
import { usagePage } from "../src/extras/usagePage.ts";
import { isLocal, LiveWatch } from "../src/gateway/liveWatch.ts";
import { gateway } from "./host.ts";

const row = { requests: 3, input: 12_000, cached: 9_000, output: 400, cost: 0.0312, unpriced: 0 };
const empty = { requests: 2, input: 0, cached: 0, output: 0, cost: 0, unpriced: 0 };
const today = "2026-11-17";
const drawn = (usage: object) => usagePage({ usage, period: 30, today }, "once");

test("what is not known is not zero", () => {
  assert.equal(costText(row), "$0.031");
  assert.equal(costText({ ...row, unpriced: 1, cost: 0 }), "unknown");
  assert.equal(costText({ ...row, unpriced: 1, cost: 2 }), "at least $2.00");
  assert.equal(costText({ ...row, cost: 0 }), "$0", "a model that is free");
  assert.equal(costText(empty), "–", "cancelled before anything was counted");
  assert.equal(cachedText(row), "75%");
  assert.equal(cachedText(empty), "–");
  assert.equal(cachedText({ requests: 1, input: 1, output: 1, cost: 1 }), "–", "an older gateway");
  assert.deepEqual([0.000004, 0.00123, 0.099, 0.1, 12.345].map(dollars), [
    "$0.000004",
    "$0.0012",
    "$0.099",
    "$0.10",
    "$12.35",
  ]);
});

test("today as text", () => {
  const models = [
    { model: "acme/tiny-1", ...row },
    { model: "", ...empty },
  ];
  assert.equal(
    usageSummary({ today: row, models }),
    "Today: 3 requests, 12,400 tokens; cost: $0.031.\nacme/tiny-1: 12,400 tokens, $0.031\nnot answered: – tokens, –",
  );
  assert.match(usageSummary({}), /keeps no journal/);
});

test("the view has figures, plots and tables, and no script", () => {
  const days = [
    { day: "2026-11-16", models: [{ model: "acme/<b>", ...row }] },
    {
      day: today,
      models: [
        { model: "acme/two", ...row, unpriced: 3, cost: 0 },
        { model: "", ...empty },
      ],
    },
  ];
  const text = drawn({ today: row, days });
  assert.match(text, /content="default-src &#39;none&#39;; style-src &#39;nonce-once&#39;"/);
  assert.equal(/<script|javascript:|https?:|style="/.test(text), false);
  assert.ok(text.includes("acme/&lt;b&gt;") && !text.includes("acme/<b>"));
  assert.match(text, /<title>2026-11-16, acme\/&lt;b&gt;: 12,400 tokens<\/title>/);
  assert.match(text, /<td>17 Nov<\/td>.*unknown/s);
  assert.match(text, /not answered/);
  assert.equal(/none<|\$0\.0000/.test(text), false);
  assert.match(text, /aria-label="2026-11-16 to 2026-11-17, at most 12,400 tokens a day"/);
});

test("a view without anything says why", () => {
  assert.match(drawn({ today: empty, days: [] }), /Nothing was used in the last 30 days/);
  assert.match(drawn({}), /keeps no journal/);
  assert.match(usagePage({ period: 7, today }, "n"), /Asking the gateway/);
  const problem = usagePage({ problem: "The gateway <went> away.", period: 7, today }, "n");
  assert.match(problem, /The gateway &lt;went&gt; away/);
  assert.match(problem, /href="command:penstock\.checkSetup"/);
  assert.match(drawn({ today: row, models: [{ model: "old", ...row }] }), /<td>17 Nov<\/td>/, "an older gateway");
  assert.match(drawn({ today: row, models: [{ model: "m", ...row, cost: 0 }] }), /No prices are known/);
});

test("pages escape what they show", () => {
  const name = `<img src=x onerror="a">'&`;
  assert.equal(html`<b title="${name}">${[name, 1]}</b>`.text.includes("<img"), false);
  assert.equal(
    commandLink("Add", "penstock.addProvider", 'a"b').text,
    '<a class="button" role="button" href="command:penstock.addProvider?%5B%22a%5C%22b%22%5D">Add</a>',
  );
  assert.match(page("T", "n", "", html`x`), /^<!DOCTYPE html>/);
});

test("the last ten requests are kept, the newest first", () => {
  const recent = new RecentRequests();
  const address = { url: "http://127.0.0.1:1", key: "" };
  for (let number = 0; number < 12; number++)
    recent.add({ id: `r${number}`, model: "m", question: "", time: number, address });
  assert.deepEqual(recent.rows.map(({ id }) => id).slice(0, 2), ["r11", "r10"]);
  assert.equal(recent.rows.length, 10);
});

test("a question is what a person wrote, without what the editor put around it", () => {
  const user = (...values: string[]) => ({ role: 1, content: values.map((value) => ({ value })) });
  assert.equal(
    questionOf([user("first"), { role: 2, content: [{ value: "answer" }] }, user("second\n line")]),
    "second line",
  );
  assert.equal(questionOf([user("<context>x</context>\n<userRequest>\nHow high?\n</userRequest>")]), "How high?");
  assert.equal(questionOf([user("ask"), { role: 1, content: [{ callId: "c", content: [] }] }]), "ask");
  assert.equal(questionOf([]), "");
  assert.equal(questionOf([user("x".repeat(200))]).length, 81);
});

test("a gateway on this machine is watched once, and again after it has gone", async () => {
  const responses: { end(): unknown; write(text: string): unknown }[] = [];
  let seen = () => {};
  const server = await gateway((_, response) => {
    responses.push(response);
    response.write("event: turns\n\n");
    seen();
  });
  const next = () => new Promise<void>((done) => (seen = done));
  const watch = new LiveWatch(async () => ({ url: server.url, key: "k" }));
  let asked = next();
  watch.look();
  watch.look();
  await asked;
  assert.equal(server.seen.length, 1);
  assert.equal(server.seen[0]?.path, "/inspector/live");
  watch.dispose();
  await server.seen[0]?.closed;
  asked = next();
  watch.look();
  await asked;
  assert.equal(server.seen.length, 2);
  watch.dispose();
  await server.close();
  assert.deepEqual(
    ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://10.0.0.1:1", "https://a.example"].map(
      isLocal,
    ),
    [true, true, true, false, false],
  );
});
