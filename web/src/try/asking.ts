// How each client protocol asks: the address, the headers and the body of one talk. Pure; a protocol is one row.

export interface Said {
  role: "user" | "assistant";
  text: string;
}

export interface Asked {
  path: string;
  headers: Record<string, string>;
  body: unknown;
}

export interface Way {
  /** Its name among the gateway's consumers. */
  id: string;
  label: string;
  /** Who speaks it. */
  note: string;
  ask: (model: string, talk: readonly Said[]) => Asked;
}

const JSON_HEADERS = { "content-type": "application/json" };

function plainMessages(talk: readonly Said[]) {
  return talk.map(({ role, text }) => ({ role, content: text }));
}

export const WAYS: readonly Way[] = [
  {
    id: "openai-chat",
    label: "Chat",
    note: "Chat Completions: most SDKs and agents",
    ask: (model, talk) => ({
      path: "/v1/chat/completions",
      headers: JSON_HEADERS,
      body: { model, stream: true, stream_options: { include_usage: true }, messages: plainMessages(talk) },
    }),
  },
  {
    id: "responses",
    label: "Responses",
    note: "the newer OpenAI SDKs, Codex",
    ask: (model, talk) => ({
      path: "/v1/responses",
      headers: JSON_HEADERS,
      body: { model, stream: true, store: false, input: plainMessages(talk) },
    }),
  },
  {
    id: "anthropic",
    label: "Messages",
    note: "Anthropic's SDKs, Claude Code",
    ask: (model, talk) => ({
      path: "/v1/messages",
      headers: { ...JSON_HEADERS, "anthropic-version": "2023-06-01" },
      body: { model, stream: true, max_tokens: 4096, messages: plainMessages(talk) },
    }),
  },
  {
    id: "gemini",
    label: "Gemini",
    note: "Google's SDKs",
    ask: (model, talk) => ({
      path: `/v1beta/models/${model.split("/").map(encodeURIComponent).join("/")}:streamGenerateContent?alt=sse`,
      headers: JSON_HEADERS,
      body: {
        contents: talk.map(({ role, text }) => ({ role: role === "user" ? "user" : "model", parts: [{ text }] })),
      },
    }),
  },
  {
    id: "uistream",
    label: "UI stream",
    note: "useChat of the AI SDK",
    ask: (model, talk) => ({
      path: "/api/chat",
      headers: JSON_HEADERS,
      body: {
        model,
        id: "try-it",
        trigger: "submit-message",
        messages: talk.map(({ role, text }, n) => ({ id: `m${n}`, role, parts: [{ type: "text", text }] })),
      },
    }),
  },
  {
    id: "vscode",
    label: "VS Code",
    note: "the parts of a VS Code chat reply",
    ask: (model, talk) => ({
      path: "/vscode/chat",
      headers: JSON_HEADERS,
      body: {
        version: 1,
        model,
        messages: talk.map(({ role, text }) => ({ role: role === "user" ? 1 : 2, content: [{ value: text }] })),
      },
    }),
  },
];

/** The same as a command for a terminal. The key is never in it. */
export function curlOf(asked: Asked, origin: string, keyed: boolean): string {
  const headers = Object.entries(asked.headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  if (keyed) headers.push('-H "authorization: Bearer $PENSTOCK_KEY"');
  return ["curl -N", quoted(`${origin}${asked.path}`), ...headers, "-d", quoted(JSON.stringify(asked.body))].join(" ");
}

function quoted(text: string): string {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

/** Which model a newcomer begins with: one that needs no key and shows something at once. */
export function firstModel(models: readonly { id: string }[], remembered: string): string {
  const ids = models.map((model) => model.id);
  const wishes = [remembered, "replay/reasoning", "replay/text"];
  return wishes.find((wish) => ids.includes(wish)) ?? ids.find((id) => id.startsWith("replay/")) ?? ids[0] ?? "";
}

/** What an error says, in whichever dialect it is said. */
export function refusalWords(status: number, text: string): string {
  let found = "";
  try {
    found = messageIn(JSON.parse(text));
  } catch {
    found = text.length < 300 && !text.trimStart().startsWith("<") ? text.trim() : "";
  }
  return found || `The gateway said ${status}.`;
}

function messageIn(body: unknown): string {
  if (Array.isArray(body)) return messageIn(body[0]);
  if (typeof body === "string") return body;
  if (typeof body !== "object" || body === null) return "";
  const { error, message, detail, errorText } = body as Record<string, unknown>;
  for (const place of [error, message, errorText, detail]) {
    const words = messageIn(place);
    if (words) return words;
  }
  return "";
}
