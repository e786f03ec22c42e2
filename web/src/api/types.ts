// What the gateway says to the page, as docs/inspector-api.md writes it down. Types only.

/** A wire frame of the provider. `t`: seconds since the turn began. `cut`: the whole is at …/frames/N. */
export interface Frame {
  t: number | null;
  name: string;
  data: string;
  size: number;
  cut?: true;
}

/** A canonical event. `frame`: the index of its cause, null for the end of the input. */
export interface Event {
  frame: number | null;
  type: string;
  body: Record<string, unknown>;
}

/** What the client got. */
export interface Output {
  event: number | null;
  frame: number | null;
  name: string;
  data: string;
  size: number;
  cut?: true;
}

/** A diagnostic, a loss or a fault. */
export interface Mark {
  level: "info" | "warning" | "error";
  code: string;
  message: string;
  frame: number | null;
  event: number | null;
  output: number | null;
}

export interface Additions {
  frames: Frame[];
  events: Event[];
  outputs: Output[];
  marks: Mark[];
  done: boolean;
  /** The share of the bytes that has been read, below 1 while more pages follow. */
  progress?: number;
  /** Who made the error that ended the turn; "unsent": the gateway could not send the request to the provider. */
  fault_by?: "" | "gateway" | "provider" | "unsent";
}

export type State = "open" | "streaming" | "finish" | "fault" | "cancelled" | "refused";

/** One turn in the list. `protocol` is the client's, `upstream` the provider's; `held`: its frames can be looked at. */
export interface Row {
  id: string;
  time: number;
  client: string;
  route: string;
  key: string;
  asked: string;
  model: string;
  provider: string;
  engine: string;
  decisions: string[];
  protocol: string;
  upstream: string;
  operation: string;
  stream: boolean;
  tee: boolean;
  state: State;
  finish: string;
  fault: string;
  message: string;
  http: number;
  ttft: number | null;
  duration: number | null;
  rate: number | null;
  input: number | null;
  output: number | null;
  cached: number | null;
  reasoning: number | null;
  cost: number | null;
  estimate: number | null;
  low: number | null;
  high: number | null;
  /** How the estimate was made: actual, hybrid or estimated. */
  method?: string;
  held: boolean;
  /** How often the same refusal came, where they are counted as one. */
  times: number;
  /** Frames of the provider that could not be read and were left out. */
  malformed?: number;
  /** Why a turn that ended by itself did not end well: length, filter, refusal or malformed; "" if it did. */
  warning?: string;
  /** How many notes it has: losses, repairs and other findings. */
  notes?: number;
  /** The User-Agent of a client that is not known by name. */
  agent?: string;
  /** Names of tools that the model called, one in a line. */
  tools?: string;
  /** Requests that were sent to providers. */
  tries?: number;
  /** Bytes of the answer. */
  bytes?: number | null;
  /** Of a running turn: when its last byte came, in seconds since the epoch. */
  last_byte?: number | null;
}

export interface Trace extends Additions {
  version: 1;
  row: Row | null;
  title: string;
  protocol: string;
  consumer: string;
  consumers: string[];
  timed: boolean;
  request: string;
  /** Why the request is not there, or not as a whole. */
  request_lost?: string;
  /** Why frames are missing. */
  lost?: string;
  /** What else is worth a word. */
  note?: string;
  /** In a saved page: frames, events, row and request are those of this other trace. */
  same?: string;
  /** In a saved page: the tokens of the request, part by part. */
  breakdown?: Breakdown;
}

export type BreakdownKind = "system" | "tools" | "message" | "images" | "framing" | "hidden";

/** A part of a prompt. `share`: of the sum of all parts, 0 to 1. `message`: its place among the messages. */
export interface BreakdownLine {
  what: string;
  kind: BreakdownKind;
  tokens: number;
  share: number;
  low: number;
  high: number;
  method: string;
  message?: number;
  /** How the message begins. */
  about?: string;
}

/** The tokens of a request, part by part. */
export interface Breakdown {
  model: string;
  provider: string;
  family: string;
  tokens: number;
  low: number;
  high: number;
  method: string;
  confidence: number;
  /** What the provider counted. */
  actual: number | null;
  /** How often the request has something that can only be guessed, by kind. */
  uncertain: Record<string, number>;
  lines: BreakdownLine[];
  /** Why there are no lines. */
  lost: string;
}

/** An event `turns` of `/inspector/live`. */
export interface Turns {
  rows: Row[];
  first?: true;
  /** The gateway's clock, in seconds since the epoch. */
  now?: number;
  /** Turns that ended before the list was opened, and changed. */
  updates?: Row[];
  /** Ids of turns that match the search no longer. */
  gone?: string[];
  /** How many turns went by too fast to be reported. */
  missed?: number;
  /** More turns came than the event has: the list must be read again. */
  stale?: true;
}

/** An event `progress` of `/inspector/live`: for each running turn its bytes, and when the last one came. */
export interface Progress {
  now: number;
  turns: Record<string, [number, number | null]>;
}

/** A page of the history. The first one has counts. */
export interface TurnPage {
  rows: Row[];
  upto: number;
  offset: number;
  total?: number;
  requests?: number;
  states?: Record<string, number>;
  hints?: { message: string; position: number; length: number }[];
  partial?: number;
}

export interface About {
  version: string;
  models: { id: string; provider: string }[];
  consumers: string[];
  protocols: string[];
  recording: { on: boolean; dir?: string; [name: string]: unknown };
  journal: boolean;
  /** "session": the token of the link that `penstock serve` prints is needed. */
  key: "needed" | "session" | "none" | "ok";
  /** Whose turns this key sees: those of its tenant, or all. */
  sees?: "own" | "all";
  /** False where there is no gateway behind the page: `penstock inspect --web` shows one file. */
  live?: boolean;
  /** The name of that file. */
  file?: string;
}
