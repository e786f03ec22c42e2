// What is waited for, shortened, refused or never sent on, against a scripted provider; the status bar as the page shows it.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import {
  answer,
  ask,
  assistant,
  control,
  eye,
  model,
  taken,
  toldOfModels,
  until,
  usage,
  user,
  VENDOR,
} from "./tools.ts";

const TOOLS = [{ name: "read_gauge", description: "Reads a gauge", inputSchema: { type: "object", properties: {} } }];
type Sent = { function: { name: string; parameters: object } };
const status = () => eye<string>("status");
const data = (text: string, type: string) => new vscode.LanguageModelDataPart(Buffer.from(text), type);

export const limits: Suite = {
  "a rate limit is waited out, and the status bar counts the seconds": async () => {
    const going = ask("anthropic/claude-limited", [user("Is there room?")]);
    const first = await until("the wait to be shown", async () =>
      /waiting (\d) s: Anthropic's rate limit/.exec(await status()),
    );
    const later = await until("a second to pass", async () => {
      const now = /waiting (\d) s/.exec(await status());
      return now && Number(now[1]) < Number(first[1]) ? now : undefined;
    });
    assert.ok(Number(later[1]) >= 1);
    assert.match((await going).text, /Now there is room/);
    await until("what was used to be shown", async () => /Penstock: [\d.k]+ tokens/.exec(await status()));
  },
  "a cancel during a wait ends it at once, and nobody is asked again": async () => {
    const source = new vscode.CancellationTokenSource();
    const before = await control<number>("asked");
    const going = ask("anthropic/claude-never", [user("Is there room?")], {}, VENDOR, source.token);
    await until("the wait to be shown", async () => /waiting \d+ s: Anthropic's rate limit/.exec(await status()));
    source.cancel();
    const outcome = await going.then(
      ({ text }) => text,
      (error: Error) => error.name,
    );
    assert.ok(outcome === "" || outcome === "Canceled", outcome);
    await until("the wait to be gone", async () => !(await status()).includes("waiting"));
    assert.equal((await control<number>("asked")) - before, 1);
  },
  "a conversation that was shortened is said in the status bar, with numbers": async () => {
    const reading = Array.from({ length: 12 }, (_, number) => {
      const call = new vscode.LanguageModelToolCallPart(`gw-c${number}`, "read_gauge", {});
      return [vscode.LanguageModelChatMessage.Assistant([call]), answer(call, "0123 4567 ".repeat(300))];
    });
    const reply = await ask("tiny/gpt-4", [user("Read all gauges"), ...reading.flat()], { tools: TOOLS });
    assert.match(reply.text, /Understood/);
    await until("the compaction to be shown", async () => /compacted from [\d.]+k/.exec(await status()));
    await ask("replay/text", [user("Another question")]);
    await until("it to be gone", async () => !(await status()).includes("compacted"));
  },
  "what is the host's own is never sent on": async () => {
    const own = ["cache_control", "phase_data", "context_management", "stateful_marker", "thinking"];
    await ask("tiny/gpt-4", [user("Hello", ...own.map((type) => data("leak-me", type)))]);
    const sent = await control<string>("last");
    assert.ok(sent.includes("Hello"));
    for (const word of [...own, "leak-me", Buffer.from("leak-me").toString("base64")])
      assert.equal(sent.includes(word), false, `${word} in ${sent}`);
  },
  "files and what an application says are data of their own types; what nobody counted is estimated": async () => {
    const reply = await ask("panel/files", [user("All of them, please")]);
    assert.equal(reply.text, "Here they are.");
    const found = reply.data.slice(0, 4).map(({ mimeType, bytes }) => [mimeType, bytes.toString()]);
    assert.deepEqual(found, [
      ["application/json", '{"level": 3.2}'],
      ["text/plain", "3.2 m"],
      ["application/octet-stream", "\u0000\u0001"],
      ["application/vnd.vercel.gauge+json", '{"level": 3.2}'],
    ]);
    const { prompt_tokens, completion_tokens, total_tokens } = usage(reply);
    assert.ok(prompt_tokens > 2 && completion_tokens > 2 && total_tokens === prompt_tokens + completion_tokens);
  },
  "fifty tools go out as they are": async () => {
    const tools = Array.from({ length: 50 }, (_, number) => ({
      name: `tool_${number}`,
      description: `Does ${number}`,
      inputSchema: { type: "object", properties: { at: { type: "string" } }, required: ["at"] },
    }));
    await ask("tiny/gpt-5.2", [user("Hello")], { tools });
    const sent = JSON.parse(await control<string>("last"));
    assert.deepEqual(
      sent.tools.map(({ function: { name, parameters } }: Sent) => [name, parameters]),
      tools.map(({ name, inputSchema }) => [name, inputSchema]),
    );
  },
  "a key that the provider does not take is said once, with who and what to do": async () => {
    const chat = await model("anthropic/claude-locked");
    await assert.rejects(
      async () => taken(await chat.sendRequest([user("Please")])),
      (error: Error) => {
        assert.match(
          error.message,
          /^Anthropic refused the key \(401: invalid x-api-key\): run “Penstock: Add Provider” and enter a valid key, or put one into the configuration of a gateway of your own \(request [0-9a-f]+\)\.$/,
        );
        assert.equal((error as vscode.LanguageModelError).code, "NoPermissions");
        return true;
      },
    );
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
  "all the thinking of a round comes back in its place, also what is sealed": async () => {
    const question = user("Both gauges?");
    const first = await ask("anthropic/claude-twice", [question], { tools: TOOLS });
    assert.equal(first.calls.length, 2);
    assert.match(first.thinking, /upper one first[\s\S]*lower one/);
    const results = first.calls.map((call) => answer(call, "3 m"));
    const within = await ask("anthropic/claude-twice", [question, assistant(first), ...results], { tools: TOOLS });
    assert.match(within.text, /Both were read/);
    // The next user turn: the host has forgotten the thinking.
    const bare = assistant(first, { thinking: false });
    const history = [question, bare, ...results, assistant(within), user("Again, please")];
    assert.equal((await ask("anthropic/claude-twice", history, { tools: TOOLS })).calls.length, 2);
  },
  "the list follows the gateway, once somebody comes back to the window": async () => {
    assert.deepEqual(await vscode.lm.selectChatModels({ vendor: "penstock", id: "anthropic/claude-new" }), []);
    await control("more");
    await toldOfModels();
    await until("the new model", async () => (await vscode.lm.selectChatModels({ id: "anthropic/claude-new" }))[0]);
  },
};
