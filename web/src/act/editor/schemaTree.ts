// What a schema says of a place in a JSON syntax tree: completions, and what is wrong.
import type { SyntaxNode } from "@lezer/common";
import type { Schema } from "../schemas.ts";

export interface Problem {
  from: number;
  to: number;
  severity: "error" | "warning" | "info";
  message: string;
}

const VALUES = new Set(["Object", "Array", "String", "Number", "True", "False", "Null"]);
const TYPES: Record<string, string> = {
  Object: "object",
  Array: "array",
  String: "string",
  Number: "number",
  True: "boolean",
  False: "boolean",
  Null: "null",
};
const MOST_PROBLEMS = 100;

export type Read = (from: number, to: number) => string;

/** The value of a property or of the whole text. */
export function valueOf(node: SyntaxNode): SyntaxNode | null {
  for (let child = node.firstChild; child; child = child.nextSibling) if (VALUES.has(child.name)) return child;
  return null;
}

function unquoted(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text.replace(/^"|"$/g, "");
  }
}

/** The schema of a value, found by its place in the tree; undefined if it says nothing of it. */
export function schemaAt(node: SyntaxNode | null, root: Schema, read: Read): Schema | undefined {
  const steps: (string | null)[] = [];
  for (let at = node; at; at = at.parent) {
    if (at.name === "Property") steps.push(nameOf(at, read));
    else if (at.parent?.name === "Array" && VALUES.has(at.name)) steps.push(null);
  }
  let schema: Schema | undefined = root;
  for (const step of steps.toReversed()) schema = step === null ? schema?.items : schema?.properties?.[step];
  return schema;
}

function nameOf(property: SyntaxNode, read: Read): string {
  const name = property.getChild("PropertyName");
  return name ? unquoted(read(name.from, name.to)) : "";
}

/** Names that the object has already. */
export function namesIn(object: SyntaxNode, read: Read): Set<string> {
  return new Set(object.getChildren("Property").map((property) => nameOf(property, read)));
}

/** What the schema has to say against a text. */
export function findProblems(root: SyntaxNode, schema: Schema, read: Read): Problem[] {
  const problems: Problem[] = [];
  const value = valueOf(root);
  if (value) check(value, schema, read, problems);
  return problems.slice(0, MOST_PROBLEMS);
}

function check(node: SyntaxNode, schema: Schema, read: Read, problems: Problem[]): void {
  if (problems.length >= MOST_PROBLEMS) return;
  const found = TYPES[node.name] ?? "";
  const types = schema.type === undefined ? [] : [schema.type].flat();
  const { from, to } = node;
  if (types.length && !types.includes(found)) {
    problems.push({ from, to, severity: "error", message: `expected ${types.join(" or ")}, found ${found}` });
    return;
  }
  if (node.name === "Object") checkObject(node, schema, read, problems);
  else if (node.name === "Array") checkItems(node, schema.items, read, problems);
  else if (node.name === "String" && schema.enum && !schema.enum.includes(unquoted(read(from, to)))) {
    const message = `not one of the values that are known here: ${schema.enum.join(", ")}`;
    problems.push({ from, to, severity: "warning", message });
  }
}

function checkItems(node: SyntaxNode, items: Schema | undefined, read: Read, problems: Problem[]): void {
  if (!items) return;
  for (let child = node.firstChild; child; child = child.nextSibling) {
    if (VALUES.has(child.name)) check(child, items, read, problems);
  }
}

function checkObject(node: SyntaxNode, schema: Schema, read: Read, problems: Problem[]): void {
  const { properties, required = [] } = schema;
  if (!properties) return;
  const names = namesIn(node, read);
  const missing = required.filter((name) => !names.has(name));
  if (missing.length) {
    const message = `missing: ${missing.join(", ")}`;
    problems.push({ from: node.from, to: node.from + 1, severity: "error", message });
  }
  for (const property of node.getChildren("Property")) {
    const name = property.getChild("PropertyName");
    const value = valueOf(property);
    const inner = name && properties[unquoted(read(name.from, name.to))];
    if (name && !inner) {
      const message = "no field that is known here; it is sent as it is";
      problems.push({ from: name.from, to: name.to, severity: "info", message });
    } else if (inner && value) check(value, inner, read, problems);
  }
}
