// The bar between two panes: dragged, or moved by arrow keys; a double click gives the first sizes back. The share of
// the first pane is remembered in this browser.
import "./splitter.css";
import { type Signal, signal } from "@preact/signals";

const PREFIX = "penstock-pane-";
/** No pane gets smaller than this share. */
const LEAST = 0.12;
const STEP = 0.02;

const known = new Map<string, Signal<number>>();

/** The share that the first of two panes takes, 0 to 1. One for each name, on all pages of this browser. */
export function paneShare(name: string, first: number): Signal<number> {
  const found = known.get(name);
  if (found) return found;
  const share = signal(clamp(read(name) ?? first));
  known.set(name, share);
  return share;
}

function clamp(share: number): number {
  return Math.min(1 - LEAST, Math.max(LEAST, share));
}

function read(name: string): number | null {
  try {
    const kept = Number.parseFloat(localStorage.getItem(PREFIX + name) ?? "");
    return Number.isFinite(kept) ? kept : null;
  } catch {
    return null; // no storage: as it was made
  }
}

function keep(name: string, share: number): void {
  try {
    localStorage.setItem(PREFIX + name, share.toFixed(4));
  } catch {
    // for this page only
  }
}

interface Props {
  name: string;
  label: string;
  /** Whether the panes stand side by side, or one above the other. */
  across: "row" | "column";
  first: number;
}

export function Splitter({ name, label, across, first }: Props) {
  const share = paneShare(name, first);
  const set = (value: number) => {
    share.value = clamp(value);
    keep(name, share.value);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a rule cannot be moved
    <div
      class={`splitter ${across}`}
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={across === "row" ? "vertical" : "horizontal"}
      aria-valuemin={Math.round(LEAST * 100)}
      aria-valuemax={Math.round((1 - LEAST) * 100)}
      aria-valuenow={Math.round(share.value * 100)}
      title="Drag to resize; a double click resets"
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => event.buttons === 1 && set(shareAt(event, across))}
      onDblClick={() => set(first)}
      onKeyDown={(event) => press(event, across, share.value, first, set)}
    />
  );
}

function shareAt(event: PointerEvent & { currentTarget: HTMLElement }, across: Props["across"]): number {
  const box = event.currentTarget.parentElement?.getBoundingClientRect();
  if (!box) return 0.5;
  return across === "row" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height;
}

const MOVES: Record<Props["across"], Record<string, number>> = {
  row: { ArrowLeft: -STEP, ArrowRight: STEP },
  column: { ArrowUp: -STEP, ArrowDown: STEP },
};

function press(event: KeyboardEvent, across: Props["across"], share: number, first: number, set: (to: number) => void) {
  const by = MOVES[across][event.key];
  if (by !== undefined) set(share + by);
  else if (event.key === "Home") set(0);
  else if (event.key === "End") set(1);
  else if (event.key === "Enter") set(first);
  else return;
  event.preventDefault();
}

/** The tracks of a grid of two panes and the bar between them. */
export function tracks(share: number): string {
  return `minmax(0, ${share}fr) 7px minmax(0, ${1 - share}fr)`;
}
