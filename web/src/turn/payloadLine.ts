// A frame or an output in one line, for every protocol: what was said first, then what else is new, counters and ids
// last. Pure; knows no protocol, only the names that their fields have.
import { closeCutJson } from "../ui/cutJson.ts";
import { visibleText } from "../ui/visibleText.ts";
import { glance } from "./glance.ts";

interface Payload {
  name: string;
  data: string;
  /** Only the beginning of the data is here. */
  cut?: true;
}

export interface PayloadLine {
  /** The frame's name, or the type that the payload names itself. */
  name: string;
  line: string;
}

interface Field {
  path: string;
  key: string;
  value: string | number | boolean;
}

interface Fields {
  type: string;
  said: Field[];
  others: Field[];
  /** Counters, ids, times and padding. */
  minor: Field[];
}

/** Fields that hold what the model said, or why it failed. */
const SAID = new Set([
  "text", "content", "delta", "value", "thinking", "reasoning", "reasoning_content", "reasoning_text", "refusal",
  "partial_json", "arguments", "parameters", "input", "json", "input_json", "argumentsDelta", "argsTextDelta", "inputTextDelta", "textDelta", "tool_plan",
  "response", "signature", "errorText", "message", "transcript", "completion", "generated_text", "code",
]); // biome-ignore format: a list of names
/** Of these the text alone is shown: what it is goes without saying. */
const PLAIN = new Set(["text", "content", "delta", "value", "textDelta", "response", "completion", "generated_text"]);
const MINOR = new Set([
  "id", "index", "object", "created", "created_at", "createdAt", "createTime", "timestamp", "sequence_number", "obfuscation",
  "p", "system_fingerprint", "service_tier", "role", "modelVersion", "version", "prefix", "sequence",
]); // biome-ignore format: a list of names
const MINOR_ENDING = /(?:_id|Id|_index|Index|_duration)$/;
/** Not shown in a line at all: long, and nothing that a glance could tell. */
const LEFT_OUT = new Set(["logprobs", "top_logprobs", "token_logprobs", "logprobsResult", "safetyRatings"]);
const TYPES = ["type", "kind", "event_type"];
/** More fields, deeper ones and longer texts are not looked at. */
const MOST_FIELDS = 120;
const DEEPEST = 12;
const LONGEST_VALUE = 80;
/** How many of the payloads before are compared: parts that grow side by side take turns. */
const LOOKED_BACK = 4;

const known = new WeakMap<Payload, Fields | null>();

export function payloadLine(payloads: readonly Payload[], index: number): PayloadLine {
  const payload = payloads[index];
  if (!payload) return { name: "", line: "" };
  const fields = fieldsOf(payload);
  if (!fields) return { name: visibleText(payload.name), line: glance(payload.data) };
  const name = payload.name || fields.type;
  const before = payloads.slice(Math.max(0, index - LOOKED_BACK), index).filter((other) => nameOf(other) === name);
  return { name: visibleText(name), line: glance(lineOf(fields, repeated(before))) };
}

function nameOf(payload: Payload): string {
  return payload.name || (fieldsOf(payload)?.type ?? "");
}

/** What was in the payloads shortly before: it is not said again. */
function repeated(before: readonly Payload[]): Set<string> {
  const found = new Set<string>();
  for (const payload of before) {
    const fields = fieldsOf(payload);
    for (const field of [...(fields?.others ?? []), ...(fields?.minor ?? [])]) found.add(sameness(field));
  }
  return found;
}

function sameness({ path, value }: Field): string {
  return `${path} ${value}`;
}

function lineOf({ said, others, minor }: Fields, before: Set<string>): string {
  const all = [...others, ...minor];
  const fresh = all.filter((field) => !before.has(sameness(field)));
  // Where nothing is new, all of it is said.
  const shown = said.length || fresh.length ? fresh : all;
  const words = [...said.map(quote), ...shown.map(pair)];
  if (shown.length < all.length) words.push("…");
  return words.join(" ");
}

function quote({ key, value }: Field): string {
  return PLAIN.has(key) ? `“${value}”` : `${key} “${value}”`;
}

function pair({ key, value }: Field): string {
  if (typeof value !== "string") return `${key}:${value}`;
  const text = value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value;
  return `${key}:${JSON.stringify(text)}`;
}

/** The fields of a payload; null if it is not an object in JSON. */
function fieldsOf(payload: Payload): Fields | null {
  const found = known.get(payload);
  if (found !== undefined) return found;
  const made = readFields(payload);
  known.set(payload, made);
  return made;
}

function readFields({ name, data, cut }: Payload): Fields | null {
  if (!data.trimStart().startsWith("{")) return null;
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(cut ? closeCutJson(data) : data);
  } catch {
    return null; // broken
  }
  const own = TYPES.find((key) => typeof value[key] === "string");
  const type = own ? String(value[own]) : "";
  const fields: Fields = { type, said: [], others: [], minor: [] };
  const { [own ?? ""]: _, ...rest } = value;
  collect(fields, !own || (name && name !== type) ? value : rest, "", "", 0);
  return fields;
}

function collect(fields: Fields, value: unknown, key: string, path: string, depth: number): void {
  if (value === null || value === "" || LEFT_OUT.has(key) || depth > DEEPEST) return;
  if (fields.said.length + fields.others.length + fields.minor.length >= MOST_FIELDS) return;
  if (Array.isArray(value)) {
    for (const [place, item] of value.entries()) collect(fields, item, key, `${path}/${place}`, depth + 1);
  } else if (typeof value === "object") {
    for (const [name, item] of Object.entries(value)) collect(fields, item, name, `${path}/${name}`, depth + 1);
  } else groupOf(fields, key, value).push({ path, key, value: value as Field["value"] });
}

function groupOf(fields: Fields, key: string, value: unknown): Field[] {
  if (typeof value === "string" && SAID.has(key)) return fields.said;
  return MINOR.has(key) || MINOR_ENDING.test(key) ? fields.minor : fields.others;
}
