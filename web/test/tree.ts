// Looks into vnodes without a browser: what elements there are, and what a person would read.
import type { ComponentChild, VNode } from "preact";

export function isNode(child: ComponentChild): child is VNode<Record<string, unknown>> {
  return typeof child === "object" && child !== null && "type" in child && "props" in child;
}

/** Every element and component, in order. */
export function* nodes(child: ComponentChild | ComponentChild[]): Generator<VNode<Record<string, unknown>>> {
  if (Array.isArray(child)) for (const one of child) yield* nodes(one);
  else if (isNode(child)) {
    yield child;
    yield* nodes(child.props.children as ComponentChild);
  }
}

export function words(child: ComponentChild | ComponentChild[]): string {
  if (Array.isArray(child)) return child.map(words).join("");
  if (isNode(child)) return words(child.props.children as ComponentChild);
  return typeof child === "string" || typeof child === "number" ? String(child) : "";
}

/** As markup, for comparisons that one can read. */
export function markup(child: ComponentChild | ComponentChild[]): string {
  if (Array.isArray(child)) return child.map(markup).join("");
  if (!isNode(child)) return words(child);
  return `<${String(child.type)}>${markup(child.props.children as ComponentChild)}</${String(child.type)}>`;
}
