// The size of a prompt: counted with what the provider counted before, warned of near a known limit, and never a reason to
// refuse it. The status bar as the page shows it, against a provider with scripted usage.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { answer, ask, assistant, control, eye, model, taken, until, usage, user, VENDOR } from "./tools.ts";

const tip = () => eye<string>("tip");
const number = (text: string | undefined) => Number((text ?? "").replaceAll(",", ""));
const TOOLS = [{ name: "read_gauge", description: "Reads a gauge", inputSchema: { type: "object", properties: {} } }];
const LONG = "Every word counts. ".repeat(15_000);
const COUNTED = /as counted before it was answered: ([\d,]+) tokens \((\w+)(?:, ([\d,]+) to ([\d,]+))?\)/;

/** The prompt that is being answered counts as what is known of it and a tail, within 1%. */
async function counted(known: number, tail: object): Promise<void> {
  const [, tokens, method, low, high] = await until("the prompt to be counted", async () => {
    const now = await tip();
    return now.includes("Penstock: prompt") && COUNTED.exec(now);
  });
  assert.equal(method, "hybrid");
  const wanted = known + (await control<number>("count", tail));
  assert.ok(Math.abs(number(tokens) / wanted - 1) <= 0.01, `${tokens} of ${wanted}`);
  assert.ok(number(low) <= number(tokens) && number(tokens) <= number(high));
}

export const sizes: Suite = {
  "the second prompt counts as the first one's usage and the new message, after a restart": async () => {
    const question = user("How high is the water at the upper gate?");
    const first = await ask("mine/tide", [question]);
    const { prompt_tokens, completion_tokens } = usage(first);
    assert.deepEqual([prompt_tokens, completion_tokens], [1_700, 40]);
    const messages = [{ role: 1, content: [{ value: "How high is the water at the upper gate?" }] }];
    await until("the first prompt to be known", () => control("known", { model: "mine/tide", messages }));
    await control("restart");
    const more = "And how high is it at the lower gate, which was closed in the morning?";
    const going = ask("mine/tide", [question, assistant(first), user(more)]);
    await counted(1_740, { model: "mine/tide", items: [{ role: 1, content: [{ value: more }] }] });
    assert.match(await eye<string>("status"), /Penstock: prompt 1\.\dk of 42k \(4%\)/);
    await going;
    await until("what was used to be shown", async () =>
      /Penstock: 2\.6k of 50k \(5%\)/.exec(await eye<string>("status")),
    );
    assert.match(await tip(), /Last reply: 2,500 tokens in, 60 out \(actual\)/);
  },
  "so does the prompt with a call's result, after the signed thinking and the call": async () => {
    const id = "anthropic/claude-sonnet-4-5";
    const question = user("How high is the water?");
    const first = await ask(id, [question], { tools: TOOLS });
    const [call] = first.calls;
    assert.ok(call && usage(first).prompt_tokens === 3_000);
    const messages = [{ role: 1, content: [{ value: "How high is the water?" }] }];
    await until("the first prompt to be known", () =>
      control("known", { model: id, messages, tools: TOOLS, toolMode: 1 }),
    );
    const going = ask(id, [question, assistant(first), answer(call, "3.2 m above the sill")], { tools: TOOLS });
    const result = { callId: call.callId, content: [{ value: "3.2 m above the sill" }] };
    await counted(3_020, { model: id, items: [{ role: 1, content: [result] }] });
    assert.match((await going).text, /3\.2 m/);
  },
  "a prompt over the limit is sent, and warned of with numbers": async () => {
    const before = await control<number>("asked");
    const going = ask("mine/tide", [user(LONG)]);
    const warned = await until("the warning", async () =>
      /over the limit of Tide: ([\d,]+) tokens \(estimated, [\d,]+ to [\d,]+\) of 42,000 \(\d+%\)\. It was sent\./.exec(
        await tip(),
      ),
    );
    assert.ok(number(warned[1]) > 42_000);
    assert.match(await eye<string>("status"), /Penstock: prompt \d+k of 42k \(1\d\d%\), over the limit/);
    assert.match((await going).text, /Understood/);
    assert.equal((await control<number>("asked")) - before, 1);
    assert.deepEqual(await eye<string[]>("notices"), []);
  },
  "a provider that refuses the prompt is quoted, with the numbers and what can be done": async () => {
    const chat = await model("mine/strict");
    await assert.rejects(
      async () => taken(await chat.sendRequest([user(LONG)])),
      /cannot take a prompt this long \(400: .*42000 tokens.*61000 tokens.*\); penstock counted \d\d,\d{3} tokens \(.*\) of 42,000 \(1\d\d%\): start a new chat, attach less or pick a model with a larger window \(request \w+\)\.$/,
    );
  },
  "nothing is warned of where the window is not known": async () => {
    const long = LONG.repeat(4);
    const reply = await ask("mine/unknown", [user(long)]);
    assert.match(reply.text, /Understood/);
    const told = await until("it to be counted", async () => {
      const now = await tip();
      return COUNTED.test(now) && /Last reply: 61,000 tokens in/.test(now) ? now : undefined;
    });
    assert.ok(number(COUNTED.exec(told)?.[1]) > 128_000);
    assert.match(told, /The context window of unknown is not known: 128,000 tokens are assumed\./);
    assert.doesNotMatch(told, /the limit/);
    assert.match(await eye<string>("status"), /Penstock: 61k tokens$/);
  },
  "single texts count by what the gateway has learned, and no model is listed anew": async () => {
    const chat = await model("mine/heavy");
    const text = "The water stands high. ".repeat(80);
    const before = await chat.countTokens(text);
    assert.ok(before > 300 && before < 600, String(before));
    let listed = 0;
    const listening = vscode.lm.onDidChangeChatModels(() => listed++);
    let turns = 0;
    // The provider counts 900 each time. The gateway learns from some of the turns.
    const after = await until("the factor to be learned", async () => {
      await ask("mine/heavy", [user(`${text}${++turns}`)]);
      await eye("leave");
      const now = await chat.countTokens(text);
      return now > 1.15 * before ? now : undefined;
    });
    listening.dispose();
    assert.ok(after < 2.1 * before);
    assert.equal(listed, 0);
  },
  "how long a prompt may be is a setting": async () => {
    const settings = vscode.workspace.getConfiguration("penstock");
    const limit = async () =>
      (await vscode.lm.selectChatModels({ vendor: VENDOR, id: "mine/tide" }))[0]?.maxInputTokens;
    assert.equal(await limit(), 42_000);
    for (const [policy, tokens] of [
      ["context-window", 50_000],
      ["0.5", 25_000],
      [undefined, 42_000],
    ] as const) {
      await settings.update("models.maxInput", policy, vscode.ConfigurationTarget.Global);
      await until(`${policy} to be the policy`, async () => (await limit()) === tokens);
    }
  },
};
