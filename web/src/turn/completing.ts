// The traces of a saved page: what they have in common lies there once. Pure.
import type { Trace } from "../api/types.ts";

export function completed(traces: Record<string, Trace>): Record<string, Trace> {
  const whole = Object.entries(traces).map(([consumer, trace]): [string, Trace] => {
    const first = trace.same === undefined ? undefined : traces[trace.same];
    if (!first) return [consumer, trace];
    const { frames, events, row, request, breakdown } = first;
    return [consumer, { ...trace, frames, events, row, request, ...(breakdown && { breakdown }) }];
  });
  return Object.fromEntries(whole);
}
