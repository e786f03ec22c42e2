// What a request of Try it says beside the messages, and the body that it makes: a Chat body, which the gateway converts
// for other protocols. Pure.

export interface TrySettings {
  system: string;
  /** A JSON list of tools, as Chat Completions writes them, or of functions (`name`, `description`, `parameters`). */
  tools: string;
  /** A JSON schema of the answer. */
  schema: string;
  temperature: string;
  topP: string;
  maxOutput: string;
  effort: string;
  /** One on each line: as it is, or as a JSON string if it begins with a quote. */
  stop: string;
  seed: string;
  /** A JSON object: fields of the body that have no setting here. */
  others: string;
}

export const NO_SETTINGS: TrySettings = {
  system: "",
  tools: "",
  schema: "",
  temperature: "",
  topP: "",
  maxOutput: "",
  effort: "",
  stop: "",
  seed: "",
  others: "",
};
export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

export type ChatMessage = Record<string, unknown> & { role: string };

/** How many settings are not empty. */
export function countSettings(settings: TrySettings): number {
  return Object.values(settings).filter((value) => value.trim() !== "").length;
}

/** What is wrong with a field; "" if nothing is. */
export function problemOf(name: keyof TrySettings, value: string): string {
  if (!value.trim()) return "";
  if (name === "tools") return toolsProblem(value);
  if (name === "schema" || name === "others") {
    return parseJson(value)?.kind === "object" ? "" : "expected a JSON object";
  }
  const numeric = ["temperature", "topP", "maxOutput", "seed"].includes(name);
  return numeric && !Number.isFinite(Number(value)) ? "expected a number" : "";
}

function toolsProblem(text: string): string {
  const found = parseJson(text);
  if (!found) return "this is not JSON";
  const unnamed = toolsFrom(found.value).some((tool) => !nameOfTool(tool));
  return unnamed ? "every tool needs a name" : "";
}

function parseJson(text: string): { kind: string; value: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    return { kind: Array.isArray(value) ? "array" : value === null ? "null" : typeof value, value };
  } catch {
    return null;
  }
}

function toolsFrom(value: unknown): Record<string, unknown>[] {
  return [value].flat().filter((tool): tool is Record<string, unknown> => typeof tool === "object" && tool !== null);
}

function nameOfTool(tool: Record<string, unknown>): string {
  const inner = tool.function as Record<string, unknown> | undefined;
  return String(inner?.name ?? tool.name ?? tool.type ?? "");
}

/** Tools as Chat Completions writes them: a bare function is wrapped. */
function chatTools(text: string): unknown[] {
  const found = parseJson(text);
  return toolsFrom(found?.value).map((tool) => {
    if (tool.type || tool.function) return tool;
    const { input_schema, inputSchema, parameters, ...rest } = tool;
    return { type: "function", function: { ...rest, parameters: parameters ?? input_schema ?? inputSchema ?? {} } };
  });
}

/** The body of a Chat request. */
export function chatBody(model: string, settings: TrySettings, messages: ChatMessage[]): Record<string, unknown> {
  const system: ChatMessage[] = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  const others = objectOf(parseJson(settings.others)?.value);
  const body: Record<string, unknown> = { ...others, model, stream: true, stream_options: { include_usage: true } };
  body.messages = [...system, ...messages];
  const tools = settings.tools.trim() ? chatTools(settings.tools) : [];
  if (tools.length) body.tools = tools;
  for (const [field, value] of [
    ["temperature", settings.temperature],
    ["top_p", settings.topP],
    ["max_completion_tokens", settings.maxOutput],
    ["seed", settings.seed],
  ] as const) {
    if (value.trim() && Number.isFinite(Number(value))) body[field] = Number(value);
  }
  if (settings.effort) body.reasoning_effort = settings.effort;
  const stop = settings.stop.split("\n").filter(Boolean).map(readStop);
  if (stop.length) body.stop = stop;
  const schema = parseJson(settings.schema);
  if (schema?.kind === "object") {
    const { json_schema, ...format } = objectOf(others.response_format);
    const named = { ...SCHEMA_FORMAT, ...objectOf(json_schema), schema: schema.value };
    body.response_format = { ...format, type: "json_schema", json_schema: named };
  }
  return body;
}

const SCHEMA_FORMAT = { name: "answer", strict: true };

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function readStop(line: string): string {
  const found = line.startsWith('"') ? parseJson(line) : null;
  return found?.kind === "string" ? String(found.value) : line;
}

function writeStop(stop: string): string {
  return !stop || stop.includes("\n") || stop.startsWith('"') ? JSON.stringify(stop) : stop;
}

/** The settings and messages of a Chat body: a turn that is opened in Try it. Left out are `stream` and `stream_options`,
 * which Try it sets itself, and fields of a first system message other than its text. */
export function settingsFrom(body: Record<string, unknown>): { settings: TrySettings; messages: ChatMessage[] } {
  const { model, stream, stream_options, messages: given, ...others } = body;
  const messages = (Array.isArray(given) ? given : []) as ChatMessage[];
  const first = messages[0];
  const system = first?.role === "system" && typeof first.content === "string" ? first.content : "";
  const settings: TrySettings = {
    ...NO_SETTINGS,
    system: system.trim() ? system : "",
    tools: takeTools(others),
    schema: takeSchema(others),
    temperature: takeNumber(others, "temperature"),
    topP: takeNumber(others, "top_p"),
    maxOutput: takeNumber(others, "max_completion_tokens") || takeNumber(others, "max_tokens"),
    effort: EFFORTS.includes(String(others.reasoning_effort)) ? String(take(others, "reasoning_effort")) : "",
    stop: takeStop(others),
    seed: takeNumber(others, "seed"),
  };
  settings.others = Object.keys(others).length ? JSON.stringify(others, null, 2) : "";
  return { settings, messages: settings.system ? messages.slice(1) : messages };
}

function take(body: Record<string, unknown>, field: string): unknown {
  const value = body[field];
  delete body[field];
  return value;
}

function takeNumber(body: Record<string, unknown>, field: string): string {
  return typeof body[field] === "number" ? String(take(body, field)) : "";
}

function takeTools(body: Record<string, unknown>): string {
  return Array.isArray(body.tools) && body.tools.length ? JSON.stringify(take(body, "tools"), null, 2) : "";
}

function takeStop(body: Record<string, unknown>): string {
  const stops = [body.stop ?? []].flat();
  if (!stops.length || !stops.every((stop) => typeof stop === "string")) return "";
  delete body.stop;
  return stops.map(writeStop).join("\n");
}

/** The schema of the answer. What else the format says stays in the body, unless a schema has it here anyway. */
function takeSchema(body: Record<string, unknown>): string {
  const { json_schema, type, ...format } = objectOf(body.response_format);
  const { schema, ...rest } = objectOf(json_schema);
  if (Object.keys(objectOf(schema)).length === 0) return "";
  const isUsual = JSON.stringify({ ...SCHEMA_FORMAT, ...rest }) === JSON.stringify(SCHEMA_FORMAT) && rest.strict;
  if (isUsual && Object.keys(format).length === 0) delete body.response_format;
  else body.response_format = { ...format, type, json_schema: { strict: false, ...rest } };
  return JSON.stringify(schema, null, 2);
}
