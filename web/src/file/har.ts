// The answers in a HAR file, as browsers save their network traffic. Pure.

export interface HarEntry {
  name: string;
  body: Uint8Array<ArrayBuffer>;
  /** The body of the request. */
  request: string;
}

interface Entry {
  request?: { method?: string; url?: string; postData?: { text?: string } };
  response?: { status?: number; content?: { text?: string; encoding?: string; mimeType?: string } };
}

const STREAMS = /event-stream|ndjson|json|eventstream|octet-stream|text\/plain/i;

/** The answers to POST requests that may be streams or bodies of a model; null if the text is not a HAR file. */
export function readHar(text: string): HarEntry[] | null {
  let entries: unknown;
  try {
    entries = JSON.parse(text)?.log?.entries;
  } catch {
    return null;
  }
  if (!Array.isArray(entries)) return null;
  return (entries as Entry[]).flatMap((entry): HarEntry[] => {
    const { text: said = "", encoding = "", mimeType = "" } = entry?.response?.content ?? {};
    if (!said || entry?.request?.method !== "POST" || !STREAMS.test(mimeType)) return [];
    const body = encoding === "base64" ? bytesOf(said) : new TextEncoder().encode(said);
    return body ? [{ name: nameOf(entry.request.url ?? ""), body, request: entry.request.postData?.text ?? "" }] : [];
  });
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/** Host and path; what follows may hold a key. */
function nameOf(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return `${host}${pathname}`;
  } catch {
    return "an answer";
  }
}
