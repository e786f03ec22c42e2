// The AI SDK's `streamText` over a Chat stream: the CPU time of this process per text delta.
//
//   node aisdk.mjs < body.sse
//     {"ai", "node", "deltas", "micros"} out; the body is handed over in chunks of 4 KiB by a `fetch` of our own.
import { buffer } from "node:stream/consumers";
import { load } from "../../tests/oracles/node/ai7/load.mjs";

const ROUNDS = 40;
const CHUNK = 4096;
globalThis.AI_SDK_LOG_WARNINGS = false;

const { streamText } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { default: about } = await import("../../tests/oracles/node/ai7/node_modules/ai/package.json", { with: { type: "json" } });

const body = new Uint8Array(await buffer(process.stdin));
const chunks = [];
for (let at = 0; at < body.length; at += CHUNK) chunks.push(body.subarray(at, at + CHUNK));

function answer() {
  let next = 0;
  const stream = new ReadableStream({
    pull(controller) {
      if (next < chunks.length) controller.enqueue(chunks[next++]);
      else controller.close();
    },
  });
  return new Response(stream, { headers: { "content-type": "text/event-stream" } });
}

const openai = createOpenAI({ apiKey: "none", baseURL: "http://upstream.test/v1", fetch: async () => answer() });

async function read() {
  const result = streamText({ model: openai.chat("gpt-5-mini"), prompt: "?", maxRetries: 0 });
  let deltas = 0;
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") deltas += 1;
    else if (part.type === "error") throw part.error;
  }
  return deltas;
}

// The first rounds warm the compiler up; the best round is one of the later ones anyway.
let micros = Infinity;
let deltas = 0;
for (let round = 0; round < ROUNDS; round += 1) {
  const start = process.cpuUsage();
  deltas = await read();
  const { user, system } = process.cpuUsage(start);
  micros = Math.min(micros, (user + system) / deltas);
}
console.log(JSON.stringify({ ai: about.version, node: process.versions.node, deltas, micros }));
