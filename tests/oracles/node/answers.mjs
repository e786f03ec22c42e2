// What `streamText` and `generateText` make of one recorded answer, as one line: the AI SDK as a second reader of a corpus.
//
//   node answers.mjs --ai 7 < jobs.ndjson
//     {"id", "provider": one of providers.mjs, "baseURL", "stream"}
//     {"id", "text", "reasoning", "calls": [[id, name, input]], "sources": [[url, title]], "finish", "raw", "usage", "error", "end": true}
//
// No tools are declared: a call of the client's comes back as an unknown one, with its input as it was read.
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";
import { providersOf } from "./providers.mjs";

const { ai } = readArgs({}, ["7"]);
const load = await loader(ai);
const { generateText, streamText } = await load("ai");
const providers = providersOf(load);

const empty = () => ({ text: "", reasoning: "", calls: [], sources: [], finish: null, raw: null, usage: null, error: null });

function take(part, answer) {
  const words = part.text ?? part.delta ?? "";
  if (part.type === "text-delta" || part.type === "text") answer.text += words;
  else if (part.type === "reasoning-delta" || part.type === "reasoning") answer.reasoning += words;
  else if (part.type === "tool-call" && !part.providerExecuted) answer.calls.push([part.toolCallId, part.toolName, plain(part.input)]);
  else if (part.type === "source") answer.sources.push([part.url ?? null, part.title ?? null]);
  else if (part.type === "error") answer.error ??= failure(part.error);
  else if (part.type === "finish-step") end(part, answer);
}

function end(step, answer) {
  answer.finish = step.finishReason;
  answer.raw = step.rawFinishReason ?? null;
  answer.usage = plain(step.usage);
}

async function read(job, answer) {
  const { model } = await providers[job.provider](job.baseURL);
  const settings = { model: model(), prompt: "Hello", maxRetries: 0 };
  if (!job.stream) {
    const result = await generateText(settings);
    for (const part of result.content) take(part, answer);
    end(result.steps.at(-1), answer);
    return;
  }
  for await (const part of streamText({ ...settings, onError: () => {} }).fullStream) take(part, answer);
}

async function run(job) {
  const answer = empty();
  try {
    await read(job, answer);
  } catch (error) {
    answer.error ??= failure(error);
  }
  write({ id: job.id, ...answer, end: true });
}

process.on("unhandledRejection", (error) => console.error("unhandled:", error));
await serve(run);
