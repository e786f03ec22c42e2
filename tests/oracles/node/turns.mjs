// Whole turns of the AI SDK against a server: text, reasoning, or a tool loop in which the SDK runs the tool and asks again.
//
//   node turns.mjs --ai 5|6|7 < jobs.ndjson
//     {"id", "client": a provider of providers.mjs, or "usechat", "baseURL", "model", "stream"?, "tool"?: {"name", "schema", "output"}}
//     or {"id", "client": "embed", "baseURL", "model", "values"} for {"id", "embeddings", "usage", "end": true}
//     {"id", "text", "reasoning", "calls": [[name, input]], "finish", "steps", "usage"?, "error"?, "end": true}
//     and of "usechat" the "roles" of the page's messages
//
// `text` is that of the last step. "usechat" is the class behind `useChat` with its own transport, pointed at baseURL: the
// page runs the tool and the SDK posts again by itself.
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";
import { providersOf } from "./providers.mjs";

const { ai } = readArgs({}, ["5", "6", "7"]);
const load = await loader(ai);
const sdk = await load("ai");
const providers = providersOf(load);
const steps = 4; // more than any turn here needs

const toolsOf = (tool) =>
  tool && { [tool.name]: { description: "", inputSchema: sdk.jsonSchema(tool.schema), execute: async () => tool.output } };

async function asked(job) {
  const { model } = await providers[job.client](job.baseURL);
  const settings = { model: model(job.model), prompt: "How long does the tank take to fill?", tools: toolsOf(job.tool),
    stopWhen: sdk.stepCountIs(steps), maxRetries: 0 };
  if (!job.stream) return seen(await sdk.generateText(settings));
  const errors = [];
  const result = sdk.streamText({ ...settings, onError: ({ error }) => errors.push(error) });
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  if (errors.length > 0) throw errors[0];
  const names = ["text", "steps", "finishReason", "usage"];
  const values = await Promise.all(names.map((name) => result[name]));
  return seen(Object.fromEntries(names.map((name, at) => [name, values[at]])));
}

const seen = ({ text, steps, finishReason, usage }) => ({
  text,
  reasoning: steps.map((step) => step.reasoningText ?? "").join(""),
  calls: steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input])),
  finish: finishReason,
  steps: steps.length,
  usage: plain(usage),
});

// The least that the SDK's own React, Vue and Svelte bindings implement.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends sdk.AbstractChat {}

// A page asks again when its tool has answered; it is over when a finish asks for nothing more.
async function page(job) {
  const state = new State();
  const finishes = [];
  const over = Promise.withResolvers();
  const chat = new Chat({
    state,
    transport: new sdk.DefaultChatTransport({ api: job.baseURL, body: { model: job.model } }),
    sendAutomaticallyWhen: ({ messages }) => finishes.length < steps && sdk.lastAssistantMessageIsCompleteWithToolCalls({ messages }),
    onToolCall: ({ toolCall }) => {
      const answer = { tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: job.tool.output };
      void (chat.addToolOutput ?? chat.addToolResult)(answer);
    },
    onFinish: (finish) => {
      finishes.push(finish);
      if (!chat.messages.at(-1).parts.at(-1).type.startsWith("tool-")) over.resolve();
    },
    onError: over.reject,
  });
  await chat.sendMessage({ text: "How long does the tank take to fill?" });
  await over.promise;
  const { parts } = chat.messages.at(-1);
  const texts = parts.filter((part) => part.type === "text");
  return {
    text: texts.at(-1)?.text ?? "",
    reasoning: parts.filter((part) => part.type === "reasoning").map((part) => part.text).join(""),
    calls: parts.filter((part) => part.type.startsWith("tool-")).map((part) => [part.type.slice(5), part.input]),
    finish: finishes.at(-1).finishReason ?? "stop", // 5 does not say
    steps: finishes.length,
    roles: chat.messages.map((message) => message.role),
  };
}

async function embedded({ baseURL, model, values }) {
  const made = (await load("@ai-sdk/openai")).createOpenAI({ baseURL, apiKey: "none" });
  const { embeddings, usage } = await sdk.embedMany({ model: made.textEmbeddingModel(model), values, maxRetries: 0 });
  return { embeddings, usage };
}

const ways = { usechat: page, embed: embedded };

async function run(job) {
  try {
    write({ id: job.id, ...(await (ways[job.client] ?? asked)(job)), end: true });
  } catch (error) {
    write({ id: job.id, error: failure(error), end: true });
  }
}

process.on("unhandledRejection", (error) => console.error("unhandled:", error));
await serve(run);
