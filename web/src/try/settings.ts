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
  /** One on each line. */
  stop: string;
  seed: string;
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
  if (name === "schema") return parseJson(value)?.kind === "object" ? "" : "expected a JSON object";
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
  const body: Record<string, unknown> = { model, stream: true, stream_options: { include_usage: true } };
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
  const stop = settings.stop.split("\n").filter(Boolean);
  if (stop.length) body.stop = stop;
  const schema = parseJson(settings.schema);
  if (schema?.kind === "object") {
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: schema.value, strict: true } };
  }
  return body;
}

/** The settings and messages of a Chat body: a turn that is opened in Try it. */
export function settingsFrom(body: Record<string, unknown>): { settings: TrySettings; messages: ChatMessage[] } {
  const messages = (Array.isArray(body.messages) ? body.messages : []) as ChatMessage[];
  const isSystem = ({ role, content }: ChatMessage) =>
    (role === "system" || role === "developer") && typeof content === "string";
  const system = messages.filter(isSystem).map(({ content }) => String(content));
  const format = body.response_format as { json_schema?: { schema?: unknown } } | undefined;
  const schema = format?.json_schema?.schema;
  const settings: TrySettings = {
    system: system.join("\n\n"),
    tools: Array.isArray(body.tools) && body.tools.length ? JSON.stringify(body.tools, null, 2) : "",
    schema: schema ? JSON.stringify(schema, null, 2) : "",
    temperature: textOf(body.temperature),
    topP: textOf(body.top_p),
    maxOutput: textOf(body.max_completion_tokens ?? body.max_tokens),
    effort: EFFORTS.includes(String(body.reasoning_effort)) ? String(body.reasoning_effort) : "",
    stop: [body.stop ?? []].flat().map(String).join("\n"),
    seed: textOf(body.seed),
  };
  return { settings, messages: messages.filter((message) => !isSystem(message)) };
}

function textOf(value: unknown): string {
  return typeof value === "number" ? String(value) : "";
}
