// Tools, and the JSON of calls and results, as a provider reads them before it counts: the renderings of
// penstock.tokens.tool_rendering, name by name, which need only be as long as the real ones. A test holds the two together.

import type { Tool } from "../wire.ts";

type Schema = Readonly<Record<string, unknown>>;

const DEPTH = 24;
const SHOWN = ["description", "title", "format", "nullable", "default", "enum", "required"];
const INSIDE = ["anyOf", "oneOf", "allOf"];
// A string that is not closed reaches to the end: tried again from each further quote, it would take for ever.
const STRING = /"([^"\\]*(?:\\.[^"\\]*)*)(?:"(\s*:)?|(\\?$))/gs;

const mapping = (value: unknown): Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
const listed = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const json = (value: unknown): string => JSON.stringify(value) ?? "null";

/** One tool as text. */
export function rendered(tool: Tool, how: string): string {
  return (Object.hasOwn(RENDERINGS, how) ? RENDERINGS[how] : undefined)?.(tool) ?? json(whole(tool));
}

/** JSON that a call or a result holds. */
export function held(text: string, how: string): string {
  if (how === "words")
    return plain([...text.matchAll(STRING)].flatMap((found) => (found[3] === undefined ? [found[1]] : [])).join(" "));
  if (how === "declared") return plain(text.replace(STRING, declaredString));
  return text;
}

const declaredString = (all: string, said: string, key?: string, open?: string): string =>
  open !== undefined ? all : key ? `${said}:` : ` " ${said} " `;

const plain = (text: string): string => text.replaceAll("\\n", "\n").replaceAll("\\t", "\t").replaceAll('\\"', '"');

function whole({ name, description = "", inputSchema }: Tool): object {
  return { name, description, ...(inputSchema && { parameters: inputSchema }) };
}

/** JSON with a space after each comma and colon. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (typeof value !== "object" || value === null) return json(value);
  const rows = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return `{${rows.map(([key, inner]) => `${json(key)}: ${spaced(inner)}`).join(", ")}}`;
}

// ── TypeScript ────────────────────────────────────────────────────────────────────────────────────────────────────────

function typescript({ name, description, inputSchema }: Tool): string {
  const fields = fieldsOf(mapping(inputSchema), 0);
  const taken = fields.length ? `_: {\n${fields.join("\n")}\n}` : "";
  return `${description ? `// ${description}\n` : ""}type ${name} = (${taken}) => any;\n\n`;
}

function fieldsOf(schema: Schema, depth: number): string[] {
  const needed = listed(schema.required);
  return Object.entries(mapping(schema.properties)).flatMap(([name, value]) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
    const row = value as Schema;
    const otherwise = row.default === undefined || row.default === null ? "" : ` // default: ${String(row.default)}`;
    const field = `${name}${needed.includes(name) ? "" : "?"}: ${typeOf(row, depth + 1)},${otherwise}`;
    return row.description ? [`// ${String(row.description)}`, field] : [field];
  });
}

function typeOf(schema: Schema, depth: number): string {
  if (depth > DEPTH) return json(schema);
  const rows = INSIDE.map((word) => listed(schema[word])).find(({ length }) => length);
  if (rows) return rows.map((row) => typeOf(mapping(row), depth + 1)).join(" | ");
  if ("enum" in schema) return listed(schema.enum).map(json).join(" | ");
  if (schema.type === "array") return `${typeOf(mapping(schema.items), depth + 1)}[]`;
  if (schema.type === "object" || "properties" in schema) return `{\n${fieldsOf(schema, depth).join("\n")}\n}`;
  if (Array.isArray(schema.type)) return `[${schema.type.map((type) => `'${type}'`).join(", ")}]`;
  return schema.type === "integer" ? "number" : String(schema.type || "any");
}

// ── words alone, and declarations ─────────────────────────────────────────────────────────────────────────────────────

const kindOf = (type: unknown): string[] => (typeof type === "string" ? [type.slice(0, 4).toLowerCase()] : []);

function spoken(schema: Schema, depth: number): string[] {
  if (depth > DEPTH) return [json(schema)];
  const inner = ["items", ...INSIDE].flatMap((key) => {
    const rows = listed(schema[key]);
    return rows.length ? rows : key in schema ? [schema[key]] : [];
  });
  return [
    ...["description", "format"].map((key) => schema[key]).filter((said): said is string => typeof said === "string"),
    ...kindOf(schema.type),
    ...["enum", "required"].flatMap((key) => listed(schema[key])).map(String),
    ...Object.entries(mapping(schema.properties)).flatMap(([name, row]) => [name, ...spoken(mapping(row), depth + 1)]),
    ...inner.flatMap((row) => spoken(mapping(row), depth + 1)),
  ];
}

function declaration(schema: Schema, depth: number): Schema {
  if (depth > DEPTH) return schema;
  const deeper = (row: unknown) => declaration(mapping(row), depth + 1);
  const fields = Object.entries(mapping(schema.properties)).map(([name, row]) => [name, deeper(row)] as const);
  const [type] = kindOf(schema.type);
  return {
    ...Object.fromEntries(SHOWN.filter((key) => key in schema).map((key) => [key, schema[key]])),
    ...(type !== undefined && { type }),
    ...(fields.length && { properties: Object.fromEntries(fields) }),
    ...("items" in schema && { items: deeper(schema.items) }),
    ...Object.fromEntries(INSIDE.filter((key) => key in schema).map((key) => [key, listed(schema[key]).map(deeper)])),
  };
}

const RENDERINGS: Readonly<Record<string, (tool: Tool) => string>> = {
  spaced: (tool) => spaced(whole(tool)),
  typescript,
  words: ({ name, description = "", inputSchema }) => [name, description, ...spoken(mapping(inputSchema), 0)].join(" "),
  declared: ({ name, description = "", inputSchema }) => {
    const schema = mapping(inputSchema);
    const about = { description, ...(Object.keys(schema).length && { parameters: declaration(schema, 0) }) };
    return `declaration:${name}${held(json(about), "declared")}`;
  },
};
