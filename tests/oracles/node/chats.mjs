// Chats of a page with a server that runs the tools: the class behind `useChat` with its own transport.
//
//   node chats.mjs --ai 5|6|7 < jobs.ndjson
//     {"id", "url", "prompts": [text], "approve"?: bool, "output"?: what the page's own tools give, "stopAt"?: number}
//     {"id", "messages", "finishes": [{"isAbort", "isError", "finishReason"}], "requests", "status", "error"?, "end": true}
//
// The page answers every request for approval with `approve` and posts again by itself, as with the SDK's own helpers.
// `output` answers calls that the server leaves to the page. `stopAt`: `stop()` once that many characters of text are
// there. `requests` are the bodies that were posted.
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";

const { ai } = readArgs({}, ["5", "6", "7"]);
const sdk = await (await loader(ai))("ai");
const MOST = 8; // requests of one chat

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

const approvals = (chat) => (chat.messages.at(-1)?.parts ?? []).filter((part) => part.state === "approval-requested");
const spoken = (chat) =>
  (chat.messages.at(-1)?.role === "assistant" ? chat.messages.at(-1).parts : []).map((part) => part.text ?? "").join("");

async function run(job) {
  const state = new State();
  const finishes = [];
  const requests = [];
  let failed;
  const post = (url, options) => {
    requests.push(JSON.parse(options.body));
    return fetch(url, options);
  };
  const isReady = ({ messages }) =>
    requests.length < MOST &&
    (sdk.lastAssistantMessageIsCompleteWithToolCalls({ messages }) ||
      (sdk.lastAssistantMessageIsCompleteWithApprovalResponses?.({ messages }) ?? false));
  const chat = new Chat({
    state,
    transport: new sdk.DefaultChatTransport({ api: job.url, fetch: post }),
    sendAutomaticallyWhen: job.approve === undefined && job.output === undefined ? undefined : isReady,
    onToolCall: ({ toolCall }) => {
      if (job.output === undefined || toolCall.dynamic) return;
      const answer = { tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: job.output };
      void (chat.addToolOutput ?? chat.addToolResult)(answer);
    },
    onFinish: ({ isAbort, isError, isDisconnect, finishReason }) => finishes.push({ isAbort, isError, isDisconnect, finishReason }),
    onError: (error) => (failed = error),
  });
  try {
    for (const text of job.prompts) {
      const sent = chat.sendMessage({ text });
      if (job.stopAt !== undefined) {
        while (spoken(chat).length < job.stopAt && finishes.length === 0) await new Promise((done) => setTimeout(done, 5));
        await chat.stop();
      }
      await sent;
      await settled(chat, job);
    }
  } catch (error) {
    failed = error;
  }
  const error = failed === undefined ? undefined : failure(failed);
  write({ id: job.id, ...plain({ messages: chat.messages, finishes, requests, status: chat.status }), error, end: true });
}

// Answers requests for approval until there are none and nothing is on its way.
async function settled(chat, job) {
  for (let quiet = 0; quiet < 10; ) {
    if (job.approve !== undefined) {
      for (const part of approvals(chat)) await chat.addToolApprovalResponse({ id: part.approval.id, approved: job.approve });
    }
    quiet = ["ready", "error"].includes(chat.status) ? quiet + 1 : 0;
    await new Promise((done) => setTimeout(done, 5));
  }
}

process.on("unhandledRejection", (error) => console.error("unhandled:", error));
await serve(run);
