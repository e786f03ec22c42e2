// Half a surrogate pair is no character: JSON carries it, providers refuse it. It becomes U+FFFD on the way out.

export function mended(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

/** The same for any JSON value; what is well already is not copied. */
export function mendedDeep<T>(value: T): T {
  if (typeof value === "string") return mended(value) as T;
  if (Array.isArray(value)) return value.map(mendedDeep) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [mended(key), mendedDeep(inner)])) as T;
}
