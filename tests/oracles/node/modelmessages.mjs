// Says what one AI SDK version makes of UI messages, and whether it takes model messages as its own.
//
//   node modelmessages.mjs --ai 5|6|7 < jobs.ndjson
//     {"id", "ui": [UI messages]} per line in; {"id", "messages"?, "error"?, "end": true} per line out
//     {"id", "model": [model messages]} per line in; {"id", "refused": [places], "end": true} per line out
import { failure, loader, plain, readArgs, serve, write } from "./jobs.mjs";

const { ai } = readArgs({}, ["5", "6", "7"]);
const { convertToModelMessages, modelMessageSchema } = await (await loader(ai))("ai");

async function run({ id, ui, model }) {
  try {
    if (model !== undefined) {
      const refused = model.flatMap((message, at) => (modelMessageSchema.safeParse(message).success ? [] : [at]));
      write({ id, refused, end: true });
    } else {
      write({ id, messages: plain(await convertToModelMessages(ui)), end: true });
    }
  } catch (thrown) {
    write({ id, error: failure(thrown), end: true });
  }
}

await serve(run);
