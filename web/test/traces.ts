// Small traces for the tests.
import type { Event, Frame, Output } from "../src/api/types.ts";

export function frames(...times: (number | null)[]): Frame[] {
  return times.map((t, index) => ({ t, name: "x", data: `{"n":${index}}`, size: 7 }));
}

export function event(frame: number | null, type: string, body: Record<string, unknown> = {}): Event {
  return { frame, type, body };
}

export function output(cause: number | null, frame: number | null): Output {
  return { event: cause, frame, name: "", data: "{}", size: 2 };
}

/** Three frames: the first gives two events, the second none, the third one; then the end gives another. */
export function small() {
  return {
    frames: frames(0.5, 1, 2),
    events: [
      event(0, "start"),
      event(0, "text-start", { index: 0 }),
      event(2, "text-delta", { index: 0 }),
      event(null, "finish"),
    ],
    outputs: [output(0, 0), output(0, 0), output(2, 2), output(3, null), output(3, null)],
  };
}
