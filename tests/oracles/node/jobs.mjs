// What the oracle scripts share: arguments, the job loop over stdin and stdout, and an honest JSON form of JS values.
import { createInterface } from "node:readline";
import { inspect, parseArgs } from "node:util";

// Standard output carries results alone; whatever a package wants to say goes to standard error.
for (const name of ["log", "info", "debug"]) console[name] = console.error;
globalThis.AI_SDK_LOG_WARNINGS = false;

const versions = ["4", "5", "6", "7"];

export function readArgs(options, supported = versions) {
  const { values } = parseArgs({ options: { ai: { type: "string" }, ...options } });
  if (!supported.includes(values.ai)) {
    console.error(`--ai must be one of ${supported.join(", ")}`);
    process.exit(2);
  }
  return values;
}

export const loader = async (ai) => (await import(`./ai${ai}/load.mjs`)).load;

export const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

// One job after the other: a stuck one is then easy to name, and results need no sorting.
export async function serve(work) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (line.trim() !== "") await work(JSON.parse(line));
  }
}

// The JSON form of any value a stream part may hold. Undefined and functions are dropped and NaN becomes null, as
// JSON.stringify does; errors, bytes and accessors (the `base64` of a generated file) are shown, which it does not do.
export function plain(value, above = []) {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (value === null || typeof value !== "object") return value;
  if (above.includes(value)) return "[circular]";
  const inner = (v) => plain(v, [...above, value]);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (typeof value.toJSON === "function") return inner(value.toJSON());
  if (Array.isArray(value)) return value.map(inner);
  if (value instanceof Map) return inner(Object.fromEntries(value));
  if (value instanceof Set) return inner([...value]);
  return Object.fromEntries(fields(value).map(([key, v]) => [key, inner(v)]));
}

function fields(value) {
  const own = Object.entries(value);
  if (value instanceof Error) {
    // Both live outside the enumerable fields; the stack names paths of the machine and stays out.
    const { name, message, cause } = value;
    return [["name", name], ["message", message], ["cause", cause], ...own];
  }
  const proto = Object.getPrototypeOf(value);
  if (proto === null || proto === Object.prototype) return own;
  return [...own, ...accessors(proto).map((key) => [key, value[key]])];
}

function accessors(proto) {
  if (proto === null || proto === Object.prototype) return [];
  const descriptors = Object.entries(Object.getOwnPropertyDescriptors(proto));
  const here = descriptors.filter(([key, d]) => d.get && key !== "__proto__").map(([key]) => key);
  return [...accessors(Object.getPrototypeOf(proto)), ...here];
}

// Errors are told apart by their name, so a thrown string or object gets one too.
export const failure = (error) =>
  error instanceof Error ? plain(error) : { name: "Thrown", message: inspect(error), value: plain(error) };
