// Whether each provider can be used: all are asked at the same time, and a key that is refused is a failure.

import { Failure, failureOf } from "../errors.ts";
import type { Client } from "../gateway/client.ts";
import { type Choice, utilityOf } from "../models.ts";
import type { Model } from "../wire.ts";
import { ADD_PROVIDER, type Finding, SHOW_LOG, testRequest } from "./check.ts";

const TEST = 60_000;
const AT_ONCE = 8;

/** A provider as the gateway that this extension started lists it. */
export interface ProviderRow {
  readonly name: string;
  readonly label: string;
  readonly configured: boolean;
  readonly keys_url?: string;
  /** Where its key is: editor, configuration, environment, stored; or empty. */
  readonly source?: string;
  readonly variable?: string;
  readonly problem?: string;
}

export interface ProviderCheck {
  readonly ok: boolean;
  readonly kind: string;
  readonly message: string;
  readonly models?: readonly string[];
}

const NO_PROVIDER: Finding = {
  ok: false,
  what: "Providers: there is none yet, so no model can answer",
  fix: "Add a provider and its key.",
  actions: [ADD_PROVIDER],
};

/** One finding for each provider that is set up; one that says so where there is none. */
export async function checkProviders(client: Client, models: readonly Model[], choice: Choice): Promise<Finding[]> {
  const rows = await client.providers();
  const found = rows ? await checkListed(client, rows) : await askEach(client, models, choice);
  return found.length ? found : [NO_PROVIDER];
}

async function checkListed(client: Client, rows: readonly ProviderRow[]): Promise<Finding[]> {
  const used = rows.filter(({ configured, problem }) => configured || problem);
  return inParallel(used, async (row) => {
    if (row.problem) return failed(row, row.problem);
    try {
      const { ok, message } = await client.checkProvider(row.name);
      return ok ? { ok: true, what: `${named(row.label, message)}${from(row)}` } : failed(row, message);
    } catch (error) {
      return failed(row, error instanceof Error ? error.message : String(error));
    }
  });
}

const from = ({ source, variable }: ProviderRow): string => {
  if (variable) return ` (key from ${variable})`;
  return source ? ` (key from ${SOURCES[source] ?? source})` : "";
};
const SOURCES: Readonly<Record<string, string>> = {
  editor: "VS Code",
  configuration: "penstock.toml",
  environment: "the environment",
  stored: "penstock setup",
};

/** Most messages begin with the provider's name. */
const named = (label: string, message: string): string =>
  message.startsWith(label) ? message : `${label}: ${message}`;

function failed({ name, label, keys_url }: ProviderRow, message: string): Finding {
  return {
    ok: false,
    what: named(label, message),
    fix: `Change the key of ${label}, or remove it.`,
    actions: [
      { label: "Change Key", command: "penstock.addProvider", args: [name] },
      { label: "Manage Providers", command: "penstock.manageProviders" },
    ],
    ...(keys_url && { link: { label: "Get a key", url: keys_url } }),
  };
}

/** A gateway that lists no providers is asked for a short answer of one model of each. */
async function askEach(client: Client, models: readonly Model[], choice: Choice): Promise<Finding[]> {
  const real = models.filter(({ played }) => !played);
  const byProvider = [...Map.groupBy(real, ({ detail, id }) => detail ?? id.split("/")[0] ?? id)];
  return inParallel(byProvider, async ([provider, some]) => {
    const model = utilityOf(some, choice.utility);
    try {
      return { ok: true, what: `${provider}: ${await askModel(client, model)}` };
    } catch (error) {
      const what = `${provider}: ${error instanceof Error ? error.message : String(error)}`;
      return { ok: false, what, fix: "Tell the person who runs this gateway.", actions: [SHOW_LOG] };
    }
  });
}

/** One request with a tool and an image, where the model takes them; gives what came of it. */
export async function askModel(client: Client, model: Model | undefined): Promise<string> {
  if (!model) throw new Error("there is no model to ask");
  const { toolCalling, imageInput } = model.capabilities;
  const body = JSON.stringify(testRequest(model.id, imageInput === true, Boolean(toolCalling)));
  const kinds = new Set<string>();
  for await (const line of client.chat(body, AbortSignal.timeout(TEST))) {
    if (line.kind === "error") throw failureOf(line, model.detail ?? "");
    kinds.add(line.kind);
  }
  if (!kinds.has("text") && !kinds.has("call")) throw new Failure(`${model.id} gave neither text nor a call`);
  return `${model.id} answered${imageInput ? ", with an image" : ""}${toolCalling ? ", with a tool" : ""}`;
}

/** The results in the order of the rows, a few at a time. */
async function inParallel<T, R>(rows: readonly T[], run: (row: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = rows.entries();
  const worker = async () => {
    for (const [place, row] of queue) results[place] = await run(row);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, rows.length) }, worker));
  return results;
}
