// Reads UI message streams with one AI SDK version's real client code and writes the message a user would see.
//
//   node readui.mjs --ai 5|6|7 < jobs.ndjson
//     {"id", "sse": <the whole stream as text>, "reader"?: "chat" | "iterate"} per line in;
//     {"id", "message", "finishReason"?, "data", "error"?: {"kind", "name", "message" ...}, "end": true} per line out
//
// "chat" (the default) is the class behind `useChat`, which ends at an error chunk; "iterate" is `readUIMessageStream`,
// which reads on. Both take their chunks from `DefaultChatTransport`, so from the same parser and schema.
// `data` holds every data part as the page's `onData` gets it, the transient ones included (chat reader only).
// An error's kind: "chunk" the stream carried an error chunk; "invalid" a frame is no valid chunk; "reader" valid
// chunks in an order that makes no sense. `message` is then what had been read before it.
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";

const { ai } = readArgs({}, ["5", "6", "7"]);
const { AbstractChat, DefaultChatTransport, readUIMessageStream } = await (await loader(ai))("ai");

// The least that the SDK's own React, Vue and Svelte bindings implement.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => this.messages.push(message);
  popMessage = () => this.messages.pop();
  replaceMessage = (index, message) => this.messages.splice(index, 1, message);
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {}

const headers = { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" };

// A transport whose server answers every request with this text; it keeps the error chunks that passed.
class Played extends DefaultChatTransport {
  errors = [];
  constructor(sse) {
    super({ api: "http://played.invalid/", fetch: async () => new Response(sse, { headers }) });
  }
  processResponseStream(stream) {
    const note = (chunk, controller) => {
      if (chunk.type === "error") this.errors.push(chunk.errorText);
      controller.enqueue(chunk);
    };
    return super.processResponseStream(stream).pipeThrough(new TransformStream({ transform: note }));
  }
}

async function chat(transport) {
  let ids = 0;
  const state = new State();
  const data = [];
  let done;
  await new Chat({
    id: "chat",
    generateId: () => `generated-${++ids}`,
    state,
    transport,
    onData: (part) => data.push(part),
    onFinish: (finish) => (done = finish),
    onError: () => {},
  }).sendMessage({ text: "Hello" });
  return { message: done.message, finishReason: done.finishReason, data, thrown: state.error };
}

async function iterate(transport) {
  const stream = await transport.sendMessages({ chatId: "chat", messages: [], trigger: "submit-message" });
  let message;
  const errors = [];
  for await (message of readUIMessageStream({ stream, onError: (error) => errors.push(error) }));
  return { message, data: [], thrown: errors[0] };
}

function kind(error, transport) {
  if (["AI_TypeValidationError", "AI_JSONParseError"].includes(error?.name)) return "invalid";
  return transport.errors.includes(error?.message) ? "chunk" : "reader";
}

async function run({ id, sse, reader }) {
  const transport = new Played(sse);
  try {
    const { thrown, ...seen } = await (reader === "iterate" ? iterate : chat)(transport);
    const error = thrown === undefined ? undefined : { ...failure(thrown), kind: kind(thrown, transport) };
    write({ id, ...plain(seen), error, end: true });
  } catch (thrown) {
    write({ id, error: { ...failure(thrown), kind: kind(thrown, transport) }, end: true });
  }
}

await serve(run);
