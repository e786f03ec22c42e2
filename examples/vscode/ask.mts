// Another extension that uses penstock's models: VS Code's own API, and nothing of penstock but the vendor's name. It asks a
// question, runs the tools that the model calls, and gives the answer. The tests run it in a real VS Code.

import * as vscode from "vscode";

export interface Answer {
  readonly text: string;
  /** The names of the tools that were run. */
  readonly ran: readonly string[];
}

type Run = (input: object) => Promise<string>;

const TOOLS: vscode.LanguageModelChatTool[] = [
  {
    name: "read_gauge",
    description: "The level of the water at a station, in metres.",
    inputSchema: { type: "object", properties: { station: { type: "string" } }, required: ["station"] },
  },
];

const RUN: Readonly<Record<string, Run>> = {
  read_gauge: async (input) => `${JSON.stringify(input)}: 3.2 m`,
};

export async function ask(id: string, question: string, token: vscode.CancellationToken): Promise<Answer> {
  const [model] = await vscode.lm.selectChatModels({ vendor: "penstock", id });
  if (!model) throw new Error(`penstock lists no ${id}: see “Penstock: Check Set-up”`);
  const messages = [vscode.LanguageModelChatMessage.User(question)];
  const ran: string[] = [];
  for (let round = 0; round < 8; round++) {
    const { text, calls } = await read(await model.sendRequest(messages, { tools: TOOLS }, token));
    if (!calls.length) return { text, ran };
    messages.push(vscode.LanguageModelChatMessage.Assistant([new vscode.LanguageModelTextPart(text), ...calls]));
    for (const { callId, name, input } of calls) {
      const said = (await RUN[name]?.(input)) ?? `there is no tool ${name}`;
      const result = new vscode.LanguageModelToolResultPart(callId, [new vscode.LanguageModelTextPart(said)]);
      messages.push(vscode.LanguageModelChatMessage.User([result]));
      ran.push(name);
    }
  }
  throw new Error("the model calls tools without end");
}

/** What a reply is made of; thinking, usage and other data are left aside. */
async function read(response: vscode.LanguageModelChatResponse) {
  let text = "";
  const calls: vscode.LanguageModelToolCallPart[] = [];
  for await (const part of response.stream) {
    if (part instanceof vscode.LanguageModelTextPart) text += part.value;
    else if (part instanceof vscode.LanguageModelToolCallPart) calls.push(part);
  }
  return { text, calls };
}
