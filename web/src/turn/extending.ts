// A trace and what came after it. Pure.
import type { Additions, Trace } from "../api/types.ts";

export function extended(trace: Trace, more: Additions): Trace {
  return {
    ...trace,
    frames: trace.frames.concat(more.frames),
    events: trace.events.concat(more.events),
    outputs: trace.outputs.concat(more.outputs),
    marks: trace.marks.concat(more.marks),
    timed: trace.timed || more.frames.some((frame) => frame.t !== null),
    done: more.done,
  };
}
