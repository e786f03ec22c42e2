// The theme's colours for a canvas, the axes that all plots share, and how times are written along them.
import type uPlot from "uplot";
import { formatCount } from "../format.ts";

export interface Look {
  ink: string;
  soft: string;
  line: string;
  accent: string;
  good: string;
  bad: string;
  bg: string;
  series: string[];
}

export const SERIES = 8;

export function readLook(): Look {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  const series = Array.from({ length: SERIES }, (_, n) => read(`--series-${n + 1}`));
  const names = { ink: "--ink", soft: "--faint", line: "--line", accent: "--accent", good: "--good", bad: "--bad" };
  const [ink, soft, line, accent, good, bad] = Object.values(names).map(read) as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  return { ink, soft, line, accent, good, bad, bg: read("--bg"), series };
}

/** 500k, not 500.0k: an axis has round figures. */
export function roundCount(value: number): string {
  return formatCount(value).replace(/\.0(?=[kM])/, "");
}

/** Room above and at the right, so that no label is cut. */
export const PADDING: uPlot.Padding = [10, 14, 0, 0];

const FONT = '11px system-ui, -apple-system, "Segoe UI", sans-serif';

export function axis(look: Look, more: uPlot.Axis): uPlot.Axis {
  return {
    stroke: look.soft,
    font: FONT,
    labelFont: FONT,
    grid: { stroke: look.line, width: 1 },
    ticks: { stroke: look.line, width: 1, size: 4 },
    gap: 4,
    ...more,
  };
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const HOUR_DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });

/** A moment as one reads it along an axis whose steps are so many seconds apart. */
export function moment(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  return step >= 86_400 || (midnight && step >= 3600) ? DAY.format(date) : CLOCK.format(date);
}

/** A moment in full, for tables and what is said under the pointer. */
export function fullMoment(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  if (step >= 86_400) return DAY.format(date);
  return step >= 3600 ? `${DAY.format(date)}, ${CLOCK.format(date)}` : HOUR_DAY.format(date);
}

export function timeAxis(look: Look): uPlot.Axis {
  const values = (_: uPlot, splits: number[]) => {
    const step = (splits[1] ?? 0) - (splits[0] ?? 0);
    return splits.map((split) => moment(split, step));
  };
  return axis(look, { values, space: 64, size: 30, grid: { show: false } });
}
