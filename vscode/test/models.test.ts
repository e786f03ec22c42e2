import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Choice,
  chosen,
  fingerprint,
  honestName,
  inputLimit,
  listed,
  matches,
  suffixOf,
  utilityOf,
} from "../src/models.ts";
import { model } from "./host.ts";

const choice = (more: Partial<Choice> = {}): Choice => ({ show: [], few: 4, utility: "", ...more });

test("three fields are never set, whatever a gateway sends", () => {
  const evil = {
    ...model(),
    isDefault: true,
    requiresAuthorization: true,
    capabilities: { toolCalling: true, editTools: ["apply-patch"] },
  };
  for (const { information } of listed([evil], choice())) {
    const said = JSON.stringify(information);
    assert.equal(/isDefault|requiresAuthorization|editTools/.test(said), false, said);
    assert.equal(information.isBYOK, true);
    assert.equal(information.isUserSelectable, true);
  }
});

test("what a gateway tells is passed on", () => {
  const schema = { type: "object", properties: { reasoningEffort: { enum: ["low", "high"], group: "navigation" } } };
  const rich = model({
    tooltip: "Window 1,200",
    pricing: "$1 in, $2 out",
    maxContextWindowTokens: 1200,
    configurationSchema: schema,
  });
  const [row] = listed([rich], choice());
  assert.deepEqual(row?.information, {
    id: "acme/tiny-1",
    name: "Tiny 1",
    family: "tiny",
    version: "1",
    maxInputTokens: 1000,
    maxOutputTokens: 200,
    capabilities: { imageInput: true, toolCalling: true },
    isBYOK: true,
    isUserSelectable: true,
    detail: "Acme",
    tooltip: "Window 1,200",
    maxContextWindowTokens: 1200,
    pricing: "$1 in, $2 out",
    configurationSchema: schema,
  });
});

test("a name promises no edit tool that the model cannot use", () => {
  const promises = (name: string, family: string) => /gpt|openai|sonnet/i.test(honestName(name, family));
  assert.equal(promises("GPT-5", "gpt-5"), true);
  assert.equal(promises("GPT-5.2 Codex", "gpt-5.2-codex"), true);
  assert.equal(promises("Claude Sonnet 4.5", "claude-sonnet-4.5"), true);
  assert.equal(promises("gpt-oss-120b", "gpt-oss"), false);
  assert.equal(promises("ChatGPT Clone by OpenAI", "llama"), false);
  assert.equal(promises("Qwen Sonnet Distill", "qwen"), false);
  assert.equal(honestName("gpt-oss-120b", "gpt-oss").replaceAll("\u2060", ""), "gpt-oss-120b");
});

test("ids are unique, within a gateway and between gateways", () => {
  const ids = (suffix: string) =>
    listed([model(), model({ name: "again" })], choice(), suffix).map(({ information }) => information.id);
  assert.deepEqual(ids(""), ["acme/tiny-1", "utility"]);
  assert.deepEqual(ids("@other:1"), ["acme/tiny-1@other:1", "utility@other:1"]);
  assert.equal(listed([model(), model({ name: "again" })], choice())[0]?.information.name, "Tiny 1");
  const places = ["http://a:1", "http://a:1/deep/", "http://a:2", "https://b/deep"];
  assert.deepEqual(places.map(suffixOf), ["@a:1", "@a:1/deep", "@a:2", "@b/deep"]);
});

test("all of a short list is shown, a few of each provider of a long one, and what the user chose", () => {
  const many = [1, 2, 3, 4, 5, 6].map((number) =>
    model({ id: `a/${number}`, detail: "A", capabilities: { toolCalling: number > 4 } }),
  );
  const models = [...many, model({ id: "b/1", detail: "B" })];
  const ids = (more: Partial<Choice>) => chosen(models, choice(more)).map(({ id }) => id);
  assert.deepEqual(ids({ few: 7 }).length, 7);
  assert.deepEqual(ids({ few: 3 }), ["a/5", "a/6", "b/1"]);
  assert.deepEqual(ids({ few: 3, show: ["A/*"] }).length, 6);
  assert.deepEqual(ids({ show: ["b/1", "a/2"] }), ["a/2", "b/1"]);
});

test("of a long list the newest of each line, and the most able, are shown", () => {
  const rows = [
    model({ id: "a/duke-3-1-grand-20240620", family: "duke-3-1-grand", version: "20240620", configurationSchema: {} }),
    model({ id: "a/duke-grand-4", family: "duke-grand-4", configurationSchema: {}, maxInputTokens: 900_000 }),
    model({ id: "a/duke-grand-4-20250101", family: "duke-grand-4", version: "20250101", configurationSchema: {} }),
    model({ id: "a/duke-petit-2", family: "duke-petit-2" }),
    model({ id: "a/duke-petit-10", family: "duke-petit-10" }),
    model({ id: "a/chatty", family: "chatty", capabilities: {}, maxInputTokens: 900_000 }),
    model({ id: "replay/text", family: "replay", detail: "replay", played: true }),
    model({ id: "mine", family: "chatty", capabilities: {} }),
  ];
  const ids = (few: number) => chosen(rows, choice({ few })).map(({ id }) => id);
  assert.deepEqual(ids(1), ["mine"], "an alias was named by somebody");
  assert.deepEqual(ids(2), ["a/duke-grand-4", "mine"]);
  assert.deepEqual(ids(3), ["a/duke-grand-4", "a/duke-petit-10", "mine"]);
  assert.deepEqual(ids(5), ["a/duke-grand-4", "a/duke-grand-4-20250101", "a/duke-petit-10", "a/chatty", "mine"]);
  assert.deepEqual(ids(7).length, 7, "what is played waits until the others are shown");
});

test("packaged models are listed only if they are asked for, however few models there are", () => {
  const played = [1, 2, 3].map((number) => model({ id: `replay/${number}`, played: true }));
  const alias = model({ id: "demo", played: true });
  const rows = [...played, model({ id: "a/1" }), alias];
  const ids = (more: Partial<Choice>) => chosen(rows, choice({ few: 24, ...more })).map(({ id }) => id);
  assert.deepEqual(ids({}), ["a/1", "demo"], "an alias was named by whoever set the gateway up");
  assert.deepEqual(ids({ show: ["*"] }), ["a/1", "demo"]);
  assert.deepEqual(ids({ show: ["replay/2", "a/*"] }), ["replay/2", "a/1"]);
  assert.deepEqual(ids({ replay: true }), ["replay/1", "replay/2", "replay/3", "a/1", "demo"]);
  assert.equal(chosen(played, choice({ few: 2, replay: true })).length, 2);
  assert.deepEqual(listed(played, choice()), [], "and none is the utility model");
  assert.deepEqual(
    listed(played, choice({ utility: "replay/2", named: ["replay/1"] })).map(({ information: { id } }) => id),
    ["replay/1", "utility"],
  );
});

test("what another setting names is listed in any case", () => {
  const rows = [1, 2, 3].map((number) => model({ id: `a/${number}` }));
  const ids = (more: Partial<Choice>) => listed(rows, choice(more)).map(({ information }) => information.id);
  assert.deepEqual(ids({ few: 1, named: ["a/3", ""] }), ["a/1", "a/3", "utility"]);
  assert.deepEqual(ids({ show: ["a/2"], named: ["a/2", "b/1"] }), ["a/2", "utility"]);
});

test("patterns are no regular expressions", () => {
  assert.equal(matches("a.b*", "axb"), false);
  assert.equal(matches("a.b*", "a.b/c(1)"), true);
  assert.equal(matches("*", "anything"), true);
});

test("the utility alias is the model that was named, the cheapest, or the first", () => {
  const dear = model({ id: "dear", maxInputTokens: 100_000, prices: { input: 10, output: 30 } });
  const cheap = model({ id: "cheap", maxInputTokens: 100_000, prices: { input: 0.1, output: 0.4 } });
  const tiny = model({ id: "tiny", maxInputTokens: 500, prices: { input: 0.01, output: 0.01 } });
  const free = model({ id: "free", maxInputTokens: 100_000, prices: { input: 0, output: 0 } });
  const thinker = model({ ...cheap, id: "thinker", prices: { input: 0.05, output: 0.2 }, configurationSchema: {} });
  const lame = model({ ...cheap, id: "lame", prices: { input: 0.01, output: 0.01 }, capabilities: {} });
  assert.equal(utilityOf([dear, cheap, tiny, free, thinker, lame], "")?.id, "cheap");
  assert.equal(utilityOf([lame, free], "")?.id, "lame");
  assert.equal(utilityOf([tiny, free], "")?.id, "free");
  assert.equal(utilityOf([dear, cheap], "dear")?.id, "dear");
  assert.equal(utilityOf([model({ id: "only" })], "")?.id, "only");
  assert.equal(utilityOf([], ""), undefined);
  const alias = listed([dear, cheap], choice()).at(-1);
  assert.equal(alias?.utility, true);
  assert.equal(alias?.model.id, "cheap");
  assert.equal("configurationSchema" in (alias?.information ?? {}), false);
});

test("the utility alias says how much it thinks", () => {
  const offering = (...words: string[]) => ({ type: "object", properties: { reasoningEffort: { enum: words } } });
  const said = (more: object) => listed([model(more)], choice()).at(-1)?.information.tooltip;
  assert.match(said({}) ?? "", /: acme\/tiny-1, without thinking\.$/);
  assert.match(said({ configurationSchema: offering("none", "low") }) ?? "", /without thinking/);
  assert.match(said({ configurationSchema: offering("low", "high") }) ?? "", /with little thinking/);
});

test("a gateway's own model of that name is left alone", () => {
  assert.deepEqual(
    listed([model({ id: "utility" })], choice()).map(({ utility }) => utility),
    [undefined],
  );
});

test("a limit is known if the gateway does not say that it is assumed", () => {
  assert.equal(inputLimit(model()), 1000);
  assert.equal(inputLimit(model({ tooltip: "Tiny 1: 200K context" })), 1000);
  assert.equal(inputLimit(model({ assumed: true })), undefined);
  const older = model({ tooltip: "acme/tiny-1: its limits are not known, 128K of context are assumed" });
  assert.equal(inputLimit(older), undefined);
});

test("a list that differs only in learned factors is the same for the host", () => {
  const learned = model({ counting: { factors: { words: 2 } } });
  assert.equal(fingerprint([learned]), fingerprint([model()]));
  assert.notEqual(fingerprint([model({ maxInputTokens: 900 })]), fingerprint([model()]));
});

test("an assumed window is said in the tooltip", () => {
  const told = (more: object) => listed([model(more)], choice())[0]?.information.tooltip;
  assert.equal(
    told({ assumed: true, tooltip: "its limits are not known, 1K is assumed" }),
    "its limits are not known, 1K is assumed",
  );
  assert.equal(told({ assumed: true }), "The context window is not known: 1,200 tokens are assumed.");
  assert.equal(
    told({ assumed: true, tooltip: "Tiny 1" }),
    "Tiny 1. The context window is not known: 1,200 tokens are assumed.",
  );
  assert.equal(told({ tooltip: "Tiny 1" }), "Tiny 1");
});
