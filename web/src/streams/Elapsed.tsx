// How long a turn took; of a running turn how long it takes, its bytes, and how long nothing has come.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { formatBytes, formatDuration } from "../ui/format.ts";
import { isRunning } from "./listing.ts";
import { clockAhead } from "./live.ts";

/** Seconds without a byte after which a running turn looks hung. */
export const SILENT_SECONDS = 10;

const second = signal(0);
let watchers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** Draws running turns again each second; without them no clock runs. */
function useSeconds(): void {
  useEffect(() => {
    watchers += 1;
    timer ??= setInterval(() => {
      second.value += 1;
    }, 1000);
    return () => {
      watchers -= 1;
      if (watchers > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, []);
}

export function Elapsed({ row }: { row: Row }) {
  return isRunning(row) ? <Running row={row} /> : <span>{formatDuration(row.duration)}</span>;
}

function Running({ row }: { row: Row }) {
  useSeconds();
  void second.value;
  const { elapsed, silent, hung } = timesOf(row, Date.now() / 1000 - clockAhead.value);
  const bytes = row.bytes ? formatBytes(row.bytes) : "no bytes";
  return (
    <span
      class={hung ? "elapsed hung" : "elapsed"}
      title={`${bytes} so far; ${row.last_byte ? "last byte" : "asked"} ${formatSeconds(silent)} ago`}
    >
      {formatSeconds(elapsed)}
    </span>
  );
}

/** The bytes of a running turn, and how long nothing has come: stands beside its state. */
export function Silence({ row }: { row: Row }) {
  useSeconds();
  void second.value;
  const { silent, hung } = timesOf(row, Date.now() / 1000 - clockAhead.value);
  const bytes = row.bytes ? formatBytes(row.bytes) : "";
  const words = hung ? `nothing for ${formatSeconds(silent)}` : "";
  return <span class={hung ? "silence hung" : "silence"}>{[bytes, words].filter(Boolean).join(" · ")}</span>;
}

export function timesOf(row: Row, now: number): { elapsed: number; silent: number; hung: boolean } {
  const elapsed = Math.max(0, now - row.time);
  const silent = Math.max(0, now - (row.last_byte ?? row.time));
  return { elapsed, silent, hung: silent >= SILENT_SECONDS };
}

function formatSeconds(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 100 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
