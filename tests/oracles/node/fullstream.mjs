// Runs one AI SDK version's real `streamText` against a server and writes the parts of its `fullStream`.
//
//   node fullstream.mjs --ai 6 --provider anthropic --base-url http://127.0.0.1:8000/v1 [--model M] [--tools JSON]
//     one request, one part per line
//   node fullstream.mjs --ai 6 < jobs.ndjson
//     {"id", "provider", "baseURL", "model"?, "tools"?, "settings"?} per line in;
//     {"id", "part"} lines, {"id", "error"} should the iteration itself throw, then {"id", "end": true} out
//
// Tools: {"<name>": {"schema": <JSON Schema>, "description"?}} for the client's own, or
// {"<name>": {"provider": "webSearch_20250305", "args"?}} for one that the provider's package makes and its server runs.
// Settings are passed on to `streamText` (providerOptions, toolChoice ...).
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";
import { providersOf } from "./providers.mjs";

const { ai, provider, model, tools, "base-url": baseURL } = readArgs({
  provider: { type: "string" },
  "base-url": { type: "string" },
  model: { type: "string" },
  tools: { type: "string" },
});
const load = await loader(ai);
const { jsonSchema, streamText } = await load("ai");

const providers = providersOf(load);

function toolOf(spec, made) {
  if (spec.provider) return made.tools[spec.provider](spec.args ?? {});
  const schema = jsonSchema(spec.schema ?? { type: "object" });
  // No `execute`: the call is the client's to run, so the turn ends with it.
  return { description: spec.description, [ai === "4" ? "parameters" : "inputSchema"]: schema };
}

async function* parts(job) {
  const make = providers[job.provider];
  if (!make) throw new TypeError(`unknown provider ${job.provider}; one of ${Object.keys(providers).join(", ")}`);
  const made = await make(job.baseURL);
  const tools = Object.entries(job.tools ?? {}).map(([name, spec]) => [name, toolOf(spec, made)]);
  const result = streamText({
    model: made.model(job.model ?? undefined),
    messages: [{ role: "user", content: "Hello" }],
    ...(tools.length > 0 && { tools: Object.fromEntries(tools) }),
    maxRetries: 0,
    includeRawChunks: false,
    // 4 hides the pieces of a call's arguments without this; the others always show them.
    ...(ai === "4" && { toolCallStreaming: true }),
    // Errors are read from the stream itself; the default prints them.
    onError: () => {},
    ...job.settings,
  });
  for await (const part of result.fullStream) yield plain(part);
}

async function run(job) {
  try {
    for await (const part of parts(job)) write({ id: job.id, part });
  } catch (error) {
    write({ id: job.id, error: failure(error) });
  }
  write({ id: job.id, end: true });
}

// Some results of `streamText` are promises that nobody awaits here; their rejections say what the stream said.
process.on("unhandledRejection", (error) => console.error("unhandled:", error));

if (provider) {
  for await (const part of parts({ provider, baseURL, model, tools: JSON.parse(tools ?? "{}") })) write(part);
} else {
  await serve(run);
}
