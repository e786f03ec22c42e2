// Which headers of a request are sent again besides its body. Pure.

/** `GET turns/ID/headers`: those that change what a request means. */
export interface MeaningHeaders {
  headers: Record<string, string>;
  /** The names of those that held a secret. */
  removed: string[];
}

const OWN = "x-penstock-"; // the gateway's own: they mean the same in every protocol
const EVERY_REQUEST = "anthropic-version"; // each client sends it; it is not missed in another protocol

/** The headers that are sent, and the names of those that are left out. */
export function headersFor(
  { headers, removed }: MeaningHeaders,
  sameProtocol: boolean,
): { sent: Record<string, string>; leftOut: string[] } {
  const all = Object.entries(headers);
  const goes = (name: string) => sameProtocol || name.startsWith(OWN);
  const lost = all.map(([name]) => name).filter((name) => !goes(name) && name !== EVERY_REQUEST);
  return { sent: Object.fromEntries(all.filter(([name]) => goes(name))), leftOut: [...lost, ...removed] };
}
