// The phases of an attempt, for its bar and in words. Pure.
import { formatDuration } from "../ui/format.ts";
import type { Timing } from "./types.ts";

export interface Phase {
  name: "dns" | "connect" | "tls" | "waiting";
  label: string;
  seconds: number;
}

/** What happened until the first byte, or until the attempt failed. */
export function phasesOf({ start, dns, connect, tls, first_byte, end }: Timing): Phase[] {
  const known: Phase[] = [
    { name: "dns", label: "DNS", seconds: dns ?? 0 },
    { name: "connect", label: "connect", seconds: connect ?? 0 },
    { name: "tls", label: "TLS", seconds: tls ?? 0 },
  ];
  const spent = known.reduce((sum, phase) => sum + phase.seconds, 0);
  const whole = first_byte ?? (end == null ? 0 : end - start);
  known.push({ name: "waiting", label: "waiting", seconds: Math.max(0, whole - spent) });
  return known.filter((phase) => phase.seconds > 0);
}

export function lengthOf(timing: Timing): number {
  return phasesOf(timing).reduce((sum, phase) => sum + phase.seconds, 0);
}

export function describeTiming(timing: Timing, failed: boolean): string {
  const phases = phasesOf(timing).map(({ label, seconds }) => `${label} ${formatDuration(seconds)}`);
  if (timing.reused) phases.unshift("reused connection");
  if (timing.first_byte != null) phases.push(`first byte after ${formatDuration(timing.first_byte)}`);
  else if (timing.end != null) {
    phases.push(`${failed ? "failed" : "ended"} after ${formatDuration(timing.end - timing.start)}`);
  }
  return phases.join(", ") || "no times are known";
}
