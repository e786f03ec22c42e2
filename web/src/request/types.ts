// Both halves of a request, as `GET turns/ID/request` tells them. Types only; docs/inspector-api.md describes them.

export interface Decision {
  what: string;
  code: string;
  why: string;
  provider?: string;
  wait?: number;
}

/** Seconds. `start` and `end` count from the client's request, the others are durations. */
export interface Timing {
  start: number;
  reused?: boolean;
  dns?: number | null;
  connect?: number | null;
  tls?: number | null;
  first_byte?: number | null;
  end?: number | null;
}

export interface Attempt {
  provider: string;
  model: string;
  protocol: string;
  operation: string;
  engine: string;
  sent: boolean;
  method?: string;
  url?: string;
  headers?: Record<string, string>;
  body?: string;
  body_size?: number;
  body_cut?: boolean;
  status?: number;
  response_headers?: Record<string, string>;
  error?: string;
  message?: string;
  error_body?: string;
  reasons?: Decision[];
  decisions?: Decision[];
  timing: Timing;
}

export interface Loss {
  kind: "lost" | "carried" | "repaired";
  code: string;
  message: string;
  count: number;
  attempt: number;
  /** JSON Pointers into the client's body, and into the body of the attempt. */
  client: string[];
  upstream: string[];
}

export interface ClientRequest {
  method: string;
  path: string;
  protocol: string;
  headers: Record<string, string>;
  body: string;
  cut: boolean;
}

export interface Part {
  type: string;
  cache?: string;
  text?: string;
  refusal?: boolean;
  id?: string;
  name?: string;
  json?: string;
  call?: string;
  content?: Part[];
  failed?: boolean;
  media?: string;
  url?: string;
  data?: string | unknown;
  by?: string;
  [field: string]: unknown;
}

export interface CanonicalMessage {
  role: string;
  parts?: Part[];
  name?: string;
}

export interface CanonicalTool {
  name: string;
  description?: string;
  schema?: Record<string, unknown> | null;
  kind?: string;
  strict?: boolean | null;
  cache?: string;
}

export interface Canonical {
  model?: string;
  messages?: CanonicalMessage[];
  tools?: CanonicalTool[];
  choice?: unknown;
  settings?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface Previous {
  id: string;
  /** How many of the first messages are the same. */
  messages: number;
  dropped: number;
  changed: string[];
  /** Where a changed message differs first, and what stands there. */
  parts_at: { message: number; character: number; before: string; now: string } | null;
}

export interface RequestView {
  /** False: nothing is known of this request. */
  kept: boolean;
  client: ClientRequest | null;
  canonical: Canonical | null;
  /** The same as JSON, if it has numbers that JavaScript cannot hold. */
  canonical_text?: string;
  canonical_error: string;
  attempts: { attempt: Attempt; same_body: number | null }[];
  losses: Loss[];
  window: number | null;
  previous: Previous | null;
}
