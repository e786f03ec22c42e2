// The main fields of each protocol's request, for completion and checking in the editor. Not complete: a field that is
// not here is sent as it is.

export interface Schema {
  type?: string | string[];
  enum?: (string | number | boolean)[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  description?: string;
}

const text = (description = ""): Schema => ({ type: "string", description });
const number = (description = ""): Schema => ({ type: ["number", "null"], description });
const flag = (description = ""): Schema => ({ type: ["boolean", "null"], description });
const choice = (values: string[], description = ""): Schema => ({
  type: ["string", "null"],
  enum: values,
  description,
});
const object = (properties: Record<string, Schema>, required: string[] = []): Schema => {
  return { type: "object", properties, required };
};
const list = (items: Schema): Schema => ({ type: "array", items });

const JSON_SCHEMA: Schema = {
  type: "object",
  properties: {
    type: choice(["object", "array", "string", "number", "integer", "boolean", "null"]),
    properties: { type: "object" },
    required: list(text()),
    items: { type: "object" },
    enum: { type: "array" },
    description: text(),
    additionalProperties: {},
  },
};
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

const CHAT_PART = object(
  {
    type: choice(["text", "image_url", "input_audio", "file"]),
    text: text(),
    image_url: object({ url: text("https: or data:"), detail: choice(["auto", "low", "high"]) }, ["url"]),
  },
  ["type"],
);
const CHAT_TOOL = object(
  {
    type: choice(["function", "custom"]),
    function: object({ name: text(), description: text(), parameters: JSON_SCHEMA, strict: flag() }, ["name"]),
  },
  ["type"],
);

const CHAT = object(
  {
    model: text("provider/model, or an alias"),
    messages: list(
      object(
        {
          role: choice(["system", "developer", "user", "assistant", "tool"]),
          content: { type: ["string", "array", "null"], items: CHAT_PART },
          name: text(),
          tool_calls: list(
            object({ id: text(), type: choice(["function"]), function: object({ name: text(), arguments: text() }) }),
          ),
          tool_call_id: text("the call that this is the result of"),
        },
        ["role"],
      ),
    ),
    stream: flag(),
    stream_options: object({ include_usage: flag() }),
    temperature: number("0 to 2"),
    top_p: number("0 to 1"),
    max_completion_tokens: number("the longest answer"),
    max_tokens: number("the longest answer; older name"),
    stop: { type: ["string", "array", "null"] },
    seed: number(),
    n: number("number of answers"),
    tools: list(CHAT_TOOL),
    tool_choice: { type: ["string", "object"], enum: ["auto", "none", "required"] },
    parallel_tool_calls: flag(),
    response_format: object({
      type: choice(["text", "json_object", "json_schema"]),
      json_schema: object({ name: text(), schema: JSON_SCHEMA, strict: flag() }),
    }),
    reasoning_effort: choice(EFFORTS),
    frequency_penalty: number(),
    presence_penalty: number(),
    logprobs: flag(),
    top_logprobs: number(),
    user: text(),
    metadata: { type: ["object", "null"] },
    store: flag(),
    service_tier: text(),
  },
  ["model", "messages"],
);

const RESPONSES = object(
  {
    model: text("provider/model, or an alias"),
    input: {
      type: ["string", "array"],
      items: object({
        type: choice(["message", "function_call", "function_call_output", "reasoning", "item_reference"]),
        role: choice(["system", "developer", "user", "assistant"]),
        content: {
          type: ["string", "array"],
          items: object({ type: choice(["input_text", "output_text", "input_image", "input_file"]), text: text() }),
        },
        call_id: text(),
        name: text(),
        arguments: text(),
        output: {},
      }),
    },
    instructions: text("the system prompt"),
    stream: flag(),
    store: flag(),
    temperature: number(),
    top_p: number(),
    max_output_tokens: number("the longest answer"),
    tools: list(object({ type: text(), name: text(), description: text(), parameters: JSON_SCHEMA, strict: flag() })),
    tool_choice: { type: ["string", "object"], enum: ["auto", "none", "required"] },
    parallel_tool_calls: flag(),
    reasoning: object({ effort: choice(EFFORTS), summary: choice(["auto", "concise", "detailed"]) }),
    text: object({
      format: object({ type: choice(["text", "json_object", "json_schema"]), name: text(), schema: JSON_SCHEMA }),
    }),
    include: list(text()),
    previous_response_id: text(),
    metadata: { type: ["object", "null"] },
    truncation: choice(["auto", "disabled"]),
  },
  ["model", "input"],
);

const ANTHROPIC_BLOCK = object(
  {
    type: choice(["text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"]),
    text: text(),
    source: object({ type: choice(["base64", "url"]), media_type: text(), data: text(), url: text() }),
    id: text(),
    name: text(),
    input: { type: "object" },
    tool_use_id: text(),
    content: { type: ["string", "array"] },
    is_error: flag(),
    thinking: text(),
    signature: text(),
    cache_control: object({ type: choice(["ephemeral"]), ttl: choice(["5m", "1h"]) }),
  },
  ["type"],
);

const ANTHROPIC = object(
  {
    model: text("provider/model, or an alias"),
    max_tokens: number("the longest answer"),
    messages: list(
      object({ role: choice(["user", "assistant"]), content: { type: ["string", "array"], items: ANTHROPIC_BLOCK } }, [
        "role",
        "content",
      ]),
    ),
    system: { type: ["string", "array"], items: ANTHROPIC_BLOCK },
    stream: flag(),
    temperature: number("0 to 1"),
    top_p: number(),
    top_k: number(),
    stop_sequences: list(text()),
    tools: list(object({ name: text(), description: text(), input_schema: JSON_SCHEMA, type: text() }, ["name"])),
    tool_choice: object({ type: choice(["auto", "any", "tool", "none"]), name: text() }),
    thinking: object({ type: choice(["enabled", "disabled", "adaptive"]), budget_tokens: number() }),
    output_config: object({ effort: choice(EFFORTS), format: { type: "object" } }),
    metadata: object({ user_id: text() }),
    service_tier: choice(["auto", "standard_only"]),
  },
  ["model", "max_tokens", "messages"],
);

const GEMINI_CONTENT = object({
  role: choice(["user", "model"]),
  parts: list(
    object({
      text: text(),
      inlineData: object({ mimeType: text(), data: text() }),
      fileData: object({ mimeType: text(), fileUri: text() }),
      functionCall: object({ name: text(), args: { type: "object" } }),
      functionResponse: object({ name: text(), response: { type: "object" } }),
      thoughtSignature: text(),
    }),
  ),
});

const GEMINI = object(
  {
    contents: list(GEMINI_CONTENT),
    systemInstruction: GEMINI_CONTENT,
    tools: list(
      object({
        functionDeclarations: list(
          object({ name: text(), description: text(), parameters: JSON_SCHEMA, parametersJsonSchema: JSON_SCHEMA }),
        ),
        googleSearch: { type: "object" },
        codeExecution: { type: "object" },
      }),
    ),
    toolConfig: object({
      functionCallingConfig: object({ mode: choice(["AUTO", "ANY", "NONE"]), allowedFunctionNames: list(text()) }),
    }),
    generationConfig: object({
      temperature: number(),
      topP: number(),
      topK: number(),
      maxOutputTokens: number(),
      stopSequences: list(text()),
      seed: number(),
      candidateCount: number(),
      responseMimeType: choice(["text/plain", "application/json"]),
      responseSchema: JSON_SCHEMA,
      responseJsonSchema: JSON_SCHEMA,
      thinkingConfig: object({ thinkingBudget: number(), thinkingLevel: text(), includeThoughts: flag() }),
    }),
    safetySettings: { type: "array" },
    cachedContent: text(),
  },
  ["contents"],
);

export const SCHEMAS: Record<string, Schema> = {
  "openai-chat": CHAT,
  responses: RESPONSES,
  anthropic: ANTHROPIC,
  gemini: GEMINI,
};
