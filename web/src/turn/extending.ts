// A trace and what came after it.
import type { Additions, Trace } from "../api/types.ts";

/** The lists of the trace grow in place: a live turn grows many times a second, and is not copied each time. */
export function extended(trace: Trace, more: Additions): Trace {
  for (const frame of more.frames) trace.frames.push(frame);
  for (const event of more.events) trace.events.push(event);
  for (const output of more.outputs) trace.outputs.push(output);
  return {
    ...trace,
    marks: more.marks.length ? trace.marks.concat(more.marks) : trace.marks,
    timed: trace.timed || more.frames.some((frame) => frame.t !== null),
    done: more.done,
    progress: more.progress ?? 1,
    fault_by: more.fault_by ?? trace.fault_by ?? "",
  };
}
