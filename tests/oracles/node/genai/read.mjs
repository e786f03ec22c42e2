// Reads a stream of each model with both versions of @google/genai, and prints what each gave. Arguments: address and
// models. Gemini CLI 0.61 uses 1.30.
const [baseUrl, ...models] = process.argv.slice(2);
const versions = ["genai1", "genai2"];

async function read(version, model) {
  const { GoogleGenAI } = await import(version);
  const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });
  const seen = { text: "", finish: null, error: null, status: null };
  try {
    for await (const chunk of await ai.models.generateContentStream({ model, contents: "Say something." })) {
      seen.text += chunk.text ?? "";
      seen.finish = chunk.candidates?.[0]?.finishReason ?? seen.finish;
    }
  } catch (error) {
    seen.error = error.message;
    seen.status = error.status ?? null;
  }
  return seen;
}

const found = [];
for (const model of models) {
  const seen = {};
  for (const version of versions) seen[version] = await read(version, model);
  found.push(seen);
}
process.stdout.write(JSON.stringify(found));
