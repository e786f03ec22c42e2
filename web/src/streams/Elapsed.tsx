// How long a turn took; of a running turn how long it takes, its bytes, and how long nothing has come.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { formatBytes, formatDuration } from "../ui/format.ts";
import { isRunning } from "./listing.ts";
import { rowTime } from "./live.ts";

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
  const { elapsed, hung } = useTimes(row);
  return <span class={hung ? "elapsed hung" : "elapsed"}>{formatSeconds(elapsed)}</span>;
}

/** The bytes of a running turn, and when the last one came: stands beside its state. */
export function Silence({ row }: { row: Row }) {
  const { silent, hung } = useTimes(row);
  const words = describeLastByte(row, silent);
  return (
    <span class={hung ? "silence hung" : "silence"} title={words}>
      {words}
    </span>
  );
}

/** The same, with the time since the request: where there is no column for it. */
export function Progress({ row }: { row: Row }) {
  const { elapsed, silent, hung } = useTimes(row);
  const words = [formatSeconds(elapsed), describeLastByte(row, silent)].filter(Boolean).join(" · ");
  return <span class={hung ? "silence hung" : "silence"}>{words}</span>;
}

/** The times of a running turn, as they grow. */
function useTimes(row: Row) {
  useSeconds();
  void second.value;
  return timesOf(row, rowTime());
}

function describeLastByte({ state, bytes, last_byte }: Row, silent: number): string {
  if (bytes && last_byte) return `${formatBytes(bytes)} · last byte ${formatAge(silent)} ago`;
  return state === "open" ? "no byte yet" : "";
}

export function timesOf(row: Row, now: number): { elapsed: number; silent: number; hung: boolean } {
  const elapsed = Math.max(0, now - row.time);
  const silent = Math.max(0, now - (row.last_byte ?? row.time));
  return { elapsed, silent, hung: silent >= SILENT_SECONDS };
}

/** In as few words as will do: beside it stands how long the turn takes. */
function formatAge(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  return minutes < 2 ? `${Math.floor(seconds)} s` : `${minutes} min`;
}

function formatSeconds(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 100 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
