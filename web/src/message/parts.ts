// What a person sees of a turn: the shapes that fold.ts makes of events and the view draws. Types only.

export type By = "client" | "provider";

export interface TextPart {
  kind: "text" | "refusal";
  index: number;
  choice: number;
  item: string;
  text: string;
  open: boolean;
}

export interface ReasoningPart {
  kind: "reasoning";
  index: number;
  choice: number;
  form: string;
  text: string;
  open: boolean;
}

/** `state`: "cut" is a call that never became whole and must not be run. */
export interface CallPart {
  kind: "call";
  index: number;
  choice: number;
  id: string;
  name: string;
  by: By;
  form: string;
  json: string;
  state: "open" | "whole" | "cut";
  result: Answer | null;
  /** The id of the approval that the provider asks for. */
  ask: string | null;
}

export interface Answer {
  json: string;
  failed: boolean;
  partial: boolean;
}

/** A result or a request for approval whose call was never seen; `name` says of what. */
export interface StrayPart {
  kind: "result" | "ask";
  index: number;
  name: string;
  text: string;
}

/** `url` or base64 `data`; `cut`: the gateway did not send all of the data. */
export interface FilePart {
  kind: "file";
  index: number;
  choice: number;
  media: string;
  url: string;
  data: string;
  open: boolean;
  cut: boolean;
}

/** What only its own protocol understands, or data of an application; `text` is JSON. */
export interface OtherPart {
  kind: "opaque" | "data" | "step";
  index: number;
  name: string;
  text: string;
}

export type Part = TextPart | ReasoningPart | CallPart | StrayPart | FilePart | OtherPart;

/** A citation, numbered from 1 as it is shown. `of` is the index of the text, `span` its code points there. */
export interface Cited {
  number: number;
  url: string;
  title: string;
  quote: string;
  of: number | null;
  span: [number, number] | null;
}

export interface Tokens {
  input: number | null;
  output: number | null;
  cached: number | null;
  written: number | null;
  reasoning: number | null;
  exact: boolean;
}

export interface Fault {
  kind: string;
  message: string;
  status: number | null;
  code: string;
  retryAfter: number | null;
  /** A frame of the stream told it; otherwise the stream ended with it. */
  inStream: boolean;
}

export interface Message {
  id: string;
  model: string;
  parts: Part[];
  sources: Cited[];
  usage: Tokens | null;
  finish: { reason: string; raw: string } | null;
  fault: Fault | null;
  /** How many payloads had no word. */
  unknown: number;
}
