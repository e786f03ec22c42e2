// A provider that refuses a call whose signed thinking is missing, and forgets nothing: two user turns with tools, as the
// host sends them (thinking within a turn, none after it), in one window, and on from another after a gateway restart.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { answer, ask, assistant, control, model, type Taken, taken, usage, user } from "./tools.ts";

const MODEL = "anthropic/claude-script";
const TOOLS = [{ name: "read_gauge", description: "Reads a gauge", inputSchema: { type: "object", properties: {} } }];
const SAID = vscode.LanguageModelChatMessage;

/** What the host remembers of a turn once it is over: words, calls and results. */
type Kept = { text?: string; call?: string; result?: string };

const FILE = () => `${JSON.parse(process.env.PENSTOCK_E2E ?? "{}").results}.conversation`;

function spoken(kept: readonly Kept[]): vscode.LanguageModelChatMessage[] {
  return kept.flatMap(({ text, call, result }, place) => {
    if (result && call) return [answer(new vscode.LanguageModelToolCallPart(call, "read_gauge", {}), result)];
    if (call) return [SAID.Assistant([new vscode.LanguageModelToolCallPart(call, "read_gauge", {})])];
    return [place === 0 || kept[place - 1]?.text !== undefined ? SAID.User(text ?? "") : SAID.Assistant(text ?? "")];
  });
}

/** A user's turn: a question, a call, its result, an answer. Gives the conversation that the host would keep. */
async function turn(before: readonly Kept[], question: string): Promise<Kept[]> {
  const history = [...spoken(before), user(question)];
  const first: Taken = await ask(MODEL, history, { tools: TOOLS });
  const [call] = first.calls;
  assert.ok(call, `no call, but: ${first.text}`);
  assert.match(first.thinking, /Which gauge/);
  assert.ok(first.metadata, "the thinking came without its state");
  const last = await ask(MODEL, [...history, assistant(first), answer(call, "3.2 m")], { tools: TOOLS });
  assert.match(last.text, /It is 3\.2 m/);
  assert.ok(usage(last).prompt_tokens > 0);
  return [
    ...before,
    { text: question },
    { call: call.callId },
    { call: call.callId, result: "3.2 m" },
    { text: last.text },
  ];
}

export const first: Suite = {
  "two user turns with tools, without thinking from the first": async () => {
    const one = await turn([], "Upper gate?");
    const two = await turn(one, "And the lower one?");
    fs.writeFileSync(FILE().replace("second", "first"), JSON.stringify(two));
  },
  "a cancel in mid-stream closes the upstream": async () => {
    const source = new vscode.CancellationTokenSource();
    const response = await (await model("anthropic/claude-slow")).sendRequest([user("Slowly")], {}, source.token);
    let count = 0;
    await taken(response, () => {
      if (++count === 2) source.cancel();
    }).catch(() => {});
    assert.ok((await control<number>("closed")) >= 1);
  },
  "what failed for good is not asked again": async () => {
    const chat = await model("anthropic/claude-bad");
    const before = await control<number>("asked");
    for (let times = 0; times < 4; times++) {
      await assert.rejects(
        async () => taken(await chat.sendRequest([user("Please")])),
        /Anthropic did not accept the request \(400: max_tokens is too large\)/,
      );
    }
    assert.equal((await control<number>("asked")) - before, 1);
  },
};

export const second: Suite = {
  "a third turn in another window, of another gateway process": async () => {
    const kept = JSON.parse(fs.readFileSync(FILE().replace("second", "first"), "utf8")) as Kept[];
    await turn(kept, "And the surge tank?");
  },
};
