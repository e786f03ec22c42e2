// OpenAI-compatible servers by their URL, and what is known of their models: window, images, tools, price.

import type { ModelFacts, ProviderEntry, ProviderRoutes, ProviderRow } from "../gateway/provider-routes.ts";
import { type Choice, checkedInput, choose, textInput } from "./inputs.ts";
import { keep, type ProviderSession } from "./session.ts";
import { nameProblem, serverName, urlProblem } from "./store.ts";
import { factsText, pricesOf, tokensOf } from "./texts.ts";

const TITLE = "Add Server";

/** Ask for a server: URL, name, key, facts about its models. Gives its name; undefined: a box was closed. */
export async function addServer(
  session: ProviderSession,
  routes: ProviderRoutes,
  rows: readonly ProviderRow[],
): Promise<string | undefined> {
  const url = await textInput(TITLE, "The URL that /chat/completions is added to.", "http://", urlProblem);
  if (!url) return undefined;
  const taken = rows.map(({ name }) => name);
  const hint = "A name for the server: its models are listed as NAME/MODEL.";
  const name = await textInput(TITLE, hint, serverName(url, taken), (text) => nameProblem(text, taken));
  if (!name) return undefined;
  const found: string[] = [];
  const key = await askServerKey(routes, { name, url, found });
  if (key === undefined) return undefined;
  const entry: ProviderEntry = { name, title: name, base_url: url, keys: key ? [key] : [] };
  await keep(session, entry);
  await editModels(session, entry, found);
  return name;
}

/** Ask for the key of a server. The models that it lists are put into `found`. */
export function askServerKey(
  routes: ProviderRoutes,
  { name, url, found }: { readonly name: string; readonly url: string; readonly found: string[] },
): Promise<string | undefined> {
  return checkedInput({
    title: `${TITLE}: ${name}`,
    prompt: "Its key. Leave it empty if none is needed. It is checked with one request.",
    password: true,
    check: async (text) => {
      const result = await routes.check({ provider: name, base_url: url, ...(text && { key: text }) });
      found.splice(0, found.length, ...(result.models ?? []));
      return result.ok ? undefined : result.message;
    },
  });
}

type Step = { readonly model: string } | "another" | "done";

/** Let the facts about models be edited until the list is closed. `found`: the models that the server lists. */
export async function editModels(
  session: ProviderSession,
  entry: ProviderEntry,
  found: readonly string[],
): Promise<void> {
  let models: Readonly<Record<string, ModelFacts>> = entry.models ?? {};
  for (;;) {
    const step = await choose<Step>(
      `Models of ${entry.title ?? entry.name}`,
      "Pick a model to set its window, images, tools or price",
      modelRows(models, found),
    );
    if (!step || step === "done") return;
    const [model, facts] = await editModel(step, models);
    if (!model || !facts) continue;
    models = { ...models, [model]: facts };
    await keep(session, { ...entry, models });
  }
}

async function editModel(
  step: Exclude<Step, "done">,
  models: Readonly<Record<string, ModelFacts>>,
): Promise<[model: string, facts: ModelFacts | undefined]> {
  const model =
    step === "another" ? await textInput(TITLE, "The name of the model, as the server knows it.", "") : step.model;
  return model ? [model, await editFacts(model, models[model] ?? {})] : ["", undefined];
}

function modelRows(models: Readonly<Record<string, ModelFacts>>, found: readonly string[]): Choice<Step>[] {
  const names = [...new Set([...Object.keys(models), ...found])];
  return [
    { value: "done", label: "$(check) Done", alwaysShow: true },
    ...names.map((model) => ({ value: { model }, label: model, description: factsText(models[model] ?? {}) })),
    { value: "another", label: "$(add) Another model …", alwaysShow: true },
  ];
}

type Field = "context" | "max_output" | "vision" | "tools" | "prices" | "save";

/** Edit the facts about one model; undefined: the list was closed without saving. */
async function editFacts(model: string, facts: ModelFacts): Promise<ModelFacts | undefined> {
  let edited: ModelFacts = facts;
  for (;;) {
    const field = await choose<Field>(model, "What is known of this model", factRows(edited));
    if (!field) return undefined;
    if (field === "save") return edited;
    if (field === "vision" || field === "tools") edited = { ...edited, [field]: !edited[field] };
    else if (field === "prices") edited = { ...edited, ...(await askPrices(model, edited)) };
    else edited = { ...edited, ...(await askTokens(model, field, edited)) };
  }
}

function factRows({ context, max_output, vision, tools, prices }: ModelFacts): Choice<Field>[] {
  const number = (value: number | undefined) => value?.toLocaleString("en") ?? "not set";
  const flag = (value: boolean | undefined) => (value === undefined ? "not set" : value ? "yes" : "no");
  return [
    { value: "save", label: "$(check) Save" },
    {
      value: "context",
      label: "Context window",
      description: number(context),
      detail: "Prompt and answer together, in tokens",
    },
    { value: "max_output", label: "Longest answer", description: number(max_output), detail: "In tokens" },
    { value: "vision", label: "Takes images", description: flag(vision) },
    { value: "tools", label: "Calls tools", description: flag(tools), detail: "Agent mode needs it" },
    {
      value: "prices",
      label: "Price",
      description: prices ? `$${prices.input} in, $${prices.output} out` : "not set",
      detail: "Dollars for a million tokens",
    },
  ];
}

async function askTokens(model: string, field: "context" | "max_output", facts: ModelFacts): Promise<ModelFacts> {
  const wrong = (text: string) => (text && !tokensOf(text) ? "Write a number such as 65536 or 128k." : "");
  const what =
    field === "context" ? "Context window in tokens: prompt and answer together." : "Longest answer in tokens.";
  const text = await textInput(model, what, String(facts[field] ?? ""), wrong);
  const tokens = tokensOf(text ?? "");
  return tokens ? { [field]: tokens } : {};
}

async function askPrices(model: string, { prices }: ModelFacts): Promise<ModelFacts> {
  const wrong = (text: string) => (text && !pricesOf(text) ? "Write two numbers such as 0.5 1.5." : "");
  const old = prices ? `${prices.input} ${prices.output}` : "";
  const text = await textInput(model, "Dollars for a million tokens: input, then output.", old, wrong);
  const found = pricesOf(text ?? "");
  return found ? { prices: found } : {};
}
