// A provider that refuses a call, or words, whose signed thinking is missing, and forgets nothing: two user turns as the host
// sends them (thinking within a turn, none after it), on after a gateway restart, and on from another window.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { answer, ask, assistant, control, job, type Taken, until, usage, user } from "./tools.ts";

const MODEL = "anthropic/claude-script";
const TOOLS = [{ name: "read_gauge", description: "Reads a gauge", inputSchema: { type: "object", properties: {} } }];
const SAID = vscode.LanguageModelChatMessage;

/** What the host remembers of a turn once it is over: words, calls and results. */
type Kept = { text?: string; call?: string; result?: string };

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

/** Words alone, as the host keeps them: the mark of the turn beside them, and its thinking gone. */
async function words(before: readonly Said[], question: string): Promise<Said[]> {
  const history = before.flatMap(({ question, text, mark }) => [
    SAID.User(question),
    SAID.Assistant([
      new vscode.LanguageModelTextPart(text),
      new vscode.LanguageModelDataPart(Buffer.from(mark), "stateful_marker"),
    ]),
  ]);
  const reply = await ask("anthropic/claude-words", [...history, user(question)]);
  assert.equal(reply.text, `Answer number ${before.length + 1}.`);
  const mark = reply.data.find(({ mimeType }) => mimeType === "stateful_marker")?.bytes.toString() ?? "";
  assert.match(mark, /^anthropic\/claude-words\\./);
  // What an editor does to a text on its way is not ours to foresee.
  return [...before, { question, text: reply.text.replace("number", "no."), mark }];
}

interface Said {
  readonly question: string;
  readonly text: string;
  readonly mark: string;
}

const keep = (name: string, rows: unknown) => fs.writeFileSync(path.join(job().folder, name), JSON.stringify(rows));
const kept = (name: string) => JSON.parse(fs.readFileSync(path.join(job().folder, name), "utf8"));

export const first: Suite = {
  "two user turns with tools, without thinking from the first": async () => {
    const one = await turn([], "Upper gate?");
    keep("turns", await turn(one, "And the lower one?"));
  },
  "two user turns of words alone, whose thinking is found by the mark of the turn": async () => {
    const one = await words([], "Is it deep?");
    keep("words", await words(one, "Is it cold?"));
  },
  "a gateway of another process knows both": async () => {
    await control("restart");
    await until("the gateway to be back", () =>
      turn(kept("turns"), "And the surge tank?").then(
        (rows) => keep("turns", rows) ?? true,
        (error: Error) => {
          if (/signed thinking/.test(error.message)) throw error;
        },
      ),
    );
    keep("words", await words(kept("words"), "Is it safe?"));
  },
};

export const second: Suite = {
  "a turn with tools in another window": async () => {
    await turn(kept("turns"), "And the spillway?");
  },
  "a turn of words in another window": async () => {
    await words(kept("words"), "Is it far?");
  },
};
