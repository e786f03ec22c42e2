// Where two turns are compared.

export function compareAddress(first: string, second: string): string {
  return `#/compare/${encodeURIComponent(first)}/${encodeURIComponent(second)}`;
}

/** The two turns of an address; "" for one that is missing. */
export function comparedTurns(id: string): [string, string] {
  const [first = "", second = ""] = id.split("/", 2);
  return [first, second];
}
