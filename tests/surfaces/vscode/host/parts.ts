// Every kind of part, from a real gateway's packaged streams to the classes of a real VS Code.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import { ask as example } from "../../../../examples/vscode/ask.mts";
import type { Suite } from "./suites.ts";
import { answer, ask, assistant, control, eye, model, taken, until, usage, user, VENDOR } from "./tools.ts";

const TOOLS: vscode.LanguageModelChatTool[] = ["read_gauge", "list_alarms"].map((name) => ({
  name,
  description: `The tool ${name}`,
  inputSchema: { type: "object", properties: { station: { type: "string" }, unit: { type: "string" } } },
}));

/**
 * Texts or messages count as in the gateway, within 2%. It learns from replies, and the extension has what it learned once
 * somebody comes back to the window.
 */
async function countAlike(
  chat: vscode.LanguageModelChat,
  given: readonly (string | vscode.LanguageModelChatMessage)[],
  items: readonly unknown[],
): Promise<void> {
  await until(`${chat.id} to count as in the gateway`, async () => {
    let ours = 0;
    for (const one of given) ours += await chat.countTokens(one);
    const theirs = await control<number>("count", { model: chat.id, items });
    if (Math.abs(ours - theirs) <= Math.max(2, theirs * 0.02)) return true;
    await eye("leave");
    return false;
  });
}

export const parts: Suite = {
  "the models of the gateway are listed, with what the host needs to know": async () => {
    const models = await vscode.lm.selectChatModels({ vendor: VENDOR });
    const ids = models.map(({ id }) => id);
    for (const id of ["replay/text", "replay/agent", "utility"]) assert.ok(ids.includes(id), `${id} in ${ids}`);
    assert.equal(new Set(ids).size, ids.length);
    const { maxInputTokens, family, name } = await model("replay/text");
    assert.ok(maxInputTokens > 10_000 && family && name);
  },
  "text arrives, with usage and the mark of its turn": async () => {
    const reply = await ask("replay/text", [user("What is a penstock?")]);
    assert.match(reply.text, /^A penstock is the pipe/);
    const { prompt_tokens, completion_tokens, total_tokens } = usage(reply);
    assert.equal(total_tokens, prompt_tokens + completion_tokens);
    assert.ok(prompt_tokens > 0 && completion_tokens > 10);
    assert.match(
      reply.data.find(({ mimeType }) => mimeType === "stateful_marker")?.bytes.toString() ?? "",
      /^replay\/text\\./,
    );
  },
  "thinking is apart from the answer": async () => {
    const reply = await ask("replay/reasoning", [user("How long?")]);
    assert.match(reply.thinking, /540 \/ 3 = 180/);
    assert.match(reply.text, /^Three minutes/);
    usage(reply);
  },
  "a tool call comes whole and once, after the text before it, and its id comes back": async () => {
    const reply = await ask("replay/tools", [user("Level?")], { tools: TOOLS });
    assert.deepEqual(
      reply.calls.map(({ name, input }) => [name, input]),
      [["read_gauge", { station: "upper gate", unit: "m" }]],
    );
    const [call] = reply.calls;
    assert.ok(call);
    assert.ok(call.callId.startsWith("gw-") && !call.callId.includes("__vscode"));
    const kinds = reply.parts.map((part) => part instanceof vscode.LanguageModelToolCallPart);
    assert.ok(kinds.indexOf(true) > 0 && reply.text.includes("gauge"));
    const next = await ask("replay/tools", [user("Level?"), assistant(reply), answer(call, "3.2 m")], { tools: TOOLS });
    assert.match(next.text, /the result arrived/);
  },
  "parallel calls come each once, with ids of their own": async () => {
    const reply = await ask("replay/parallel-tools", [user("All levels?")], { tools: TOOLS });
    assert.deepEqual(
      reply.calls.map(({ name }) => name),
      ["read_gauge", "read_gauge", "list_alarms"],
    );
    assert.equal(new Set(reply.calls.map(({ callId }) => callId)).size, 3);
    const results = reply.calls.map((call) => answer(call, "fine"));
    assert.match(
      (await ask("replay/parallel-tools", [user("All?"), assistant(reply), ...results], { tools: TOOLS })).text,
      /result arrived/,
    );
  },
  "a tool is run by the one who asked, and its result answered": async () => {
    const tool = {
      name: "run_in_terminal",
      description: "Runs a command",
      inputSchema: { type: "object", properties: { command: { type: "string" } } },
    };
    const question = user("Please run `uname -a`");
    const reply = await ask("replay/agent", [question], { tools: [tool] });
    assert.deepEqual(
      reply.calls.map(({ input }) => input),
      [{ command: "uname -a" }],
    );
    const [call] = reply.calls;
    assert.ok(call);
    const last = await ask("replay/agent", [question, assistant(reply), answer(call, "Linux mill 6.1")], {
      tools: [tool],
    });
    assert.match(last.text, /run_in_terminal gave:\s+Linux mill 6\.1/);
  },
  "the example of an extension that asks and runs tools": async () => {
    const { text, ran } = await example(
      "replay/tools",
      "How high is the water?",
      new vscode.CancellationTokenSource().token,
    );
    assert.deepEqual(ran, ["read_gauge"]);
    assert.match(text, /the result arrived/);
    const nobody = example("replay/nothing", "Hello?", new vscode.CancellationTokenSource().token);
    await assert.rejects(nobody, /penstock lists no replay\/nothing/);
  },
  "citations are links in the text and data beside it": async () => {
    const reply = await ask("replay/citations", [user("Which turbine?")]);
    assert.match(reply.text, /\[Pelton wheels\]\(https:\/\/example\.org\/turbines\/pelton\)/);
    assert.equal(reply.data.filter(({ mimeType }) => mimeType === "application/vnd.vscode.citation+json").length, 2);
  },
  "an image is data": async () => {
    const reply = await ask("replay/image", [user("Draw")]);
    const [image] = reply.data.filter(({ mimeType }) => mimeType === "image/png");
    assert.equal(image?.bytes.subarray(1, 4).toString(), "PNG");
  },
  "a refusal is said": async () => {
    assert.match((await ask("replay/refusal", [user("Open it")])).text, /can't help with opening the spillway/);
  },
  "an answer that is cut off gives no call": async () => {
    const reply = await ask("replay/length", [user("Write")], { tools: TOOLS });
    assert.equal(reply.calls.length, 0);
    assert.match(reply.text, /Writing the whole logbook/);
  },
  "an error in mid-stream is one sentence, of the class that programs expect": async () => {
    let text = "";
    const response = await (await model("replay/error")).sendRequest([user("Speed?")]);
    const failing = taken(response, (part) => {
      if (part instanceof vscode.LanguageModelTextPart) text += part.value;
    });
    await assert.rejects(failing, (error: Error) => {
      assert.ok(error instanceof vscode.LanguageModelError, error.constructor.name);
      assert.match(
        error.message,
        /is overloaded \(529: The model is overloaded\. Try again in a moment\).*\(request [0-9a-f]+\)\.$/,
      );
      assert.equal(error.message.includes("\n"), false);
      return true;
    });
    assert.match(text, /^The turbine is running/);
  },
  "images and results with images go in": async () => {
    const pixel = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkqD/zHwAEhwJ/pW8cZQAAAABJRU5ErkJggg==",
      "base64",
    );
    const image = vscode.LanguageModelDataPart.image(new Uint8Array(pixel), "image/png");
    const tool = { name: "shot", description: "Takes a picture", inputSchema: { type: "object", properties: {} } };
    const question = user("Look at this", image);
    const reply = await ask("replay/agent", [question], { tools: [tool] });
    const [call] = reply.calls;
    assert.ok(call);
    const result = vscode.LanguageModelChatMessage.User([
      new vscode.LanguageModelToolResultPart(call.callId, [new vscode.LanguageModelTextPart("seen"), image]),
    ]);
    const last = await ask("replay/agent", [question, assistant(reply), result], { tools: [tool] });
    assert.match(last.text, /seen[\s\S]*\(image\/png\)/);
  },
  "a cancel ends the reply at once": async () => {
    const source = new vscode.CancellationTokenSource();
    const response = await (await model("replay/text")).sendRequest([user("Slowly")], {}, source.token);
    let count = 0;
    await taken(response, () => {
      if (++count === 3) source.cancel();
    }).catch(() => {});
    assert.ok(count < 40, `${count} parts came after the cancel`);
  },
  "five thousand counts are quick, ask nobody, and agree with the gateway": async () => {
    const chat = await model("replay/text");
    const words = Array.from({ length: 50 }, (_, tool) =>
      Array.from({ length: 25 }, (_, key) => `tool_${tool} property ${key}: the level of gate ${key}, in metres`),
    ).flat();
    await control("kill"); // nobody can be asked now
    const sums: number[] = [];
    for (let pass = 0; pass < 4; pass++) {
      let sum = 0;
      for (const text of words) sum += await chat.countTokens(text);
      sums.push(sum);
    }
    await control("start");
    assert.equal(new Set(sums).size, 1);
    await countAlike(chat, [words.join("\n")], [words.join("\n")]);
  },
  "a conversation with calls and results is counted as the gateway counts it": async () => {
    const chat = await model("replay/tools");
    const call = new vscode.LanguageModelToolCallPart("gw-1", "read_gauge", { station: "upper gate", unit: "m" });
    const messages = [
      user("How high is the water, and is that usual for November?"),
      vscode.LanguageModelChatMessage.Assistant([call]),
      answer(call, "3.2 m, at 06:10; the gauge was read twice."),
    ];
    const wire = [
      { role: 1, content: [{ value: "How high is the water, and is that usual for November?" }] },
      { role: 2, content: [{ callId: "gw-1", name: "read_gauge", input: { station: "upper gate", unit: "m" } }] },
      { role: 1, content: [{ callId: "gw-1", content: [{ value: "3.2 m, at 06:10; the gauge was read twice." }] }] },
    ];
    await countAlike(chat, messages, wire);
  },
  "the gateway is killed in the middle of an answer, and comes back": async () => {
    const chat = await model("replay/text");
    const response = await chat.sendRequest([user("Go")]);
    let killed: Promise<unknown> | undefined;
    await assert.rejects(
      taken(response, () => {
        killed ??= control("kill");
      }),
      /gateway went away in the middle of its answer/,
    );
    await killed;
    await assert.rejects(async () => taken(await chat.sendRequest([user("Anybody?")])), /does not answer/);
    await control("start");
    const reply = await until("the gateway to answer again", () =>
      ask("replay/text", [user("And now?")]).catch(() => undefined),
    );
    assert.match(reply.text, /^A penstock/);
  },
};
