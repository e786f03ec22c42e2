// The three columns on one axis of time, top to bottom: a cause and its effects stand side by side. Draws only the rows
// that are seen. With `only`, one column by itself, for narrow windows.
import "./ledger.css";
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Scroller, useScroller } from "../ui/useScroller.ts";
import { Cell, cellId } from "./Cell.tsx";
import { formatSeconds } from "./clock.ts";
import type { TurnModel } from "./model.ts";
import { COLUMNS, type Column, type Place } from "./order.ts";

export const TITLES: Record<Column, string> = {
  frames: "Wire frames",
  events: "Events",
  outputs: "Client got",
};
const ROW = 22;
const HEAD = 30;

interface Props {
  model: TurnModel;
  only?: Column | undefined;
}

export function Ledger({ model, only }: Props) {
  const order = model.order.value;
  const columns = only ? [only] : COLUMNS;
  const size = only ? order.counts[only] : order.size;
  const scroller = useScroller<HTMLDivElement>(size, ROW, HEAD);
  const slotOf = (place: Place) => (only ? place.index : (order.slots[place.column][place.index] ?? 0));
  useShownPlace(model, only, scroller.show);
  const scrolled = useFollow(model, size, scroller);
  const place = model.place.value;
  const active = place && columns.includes(place.column) ? cellId(place) : undefined;
  const rows = [];
  for (let slot = scroller.seen.first; slot < scroller.seen.end; slot++) {
    rows.push(<Row key={slot} model={model} slot={slot} columns={columns} only={only} />);
  }
  return (
    <div
      ref={scroller.ref}
      class={only ? "ledger one" : "ledger"}
      role="grid"
      aria-label={only ? TITLES[only] : "Frames, events and what the client got"}
      aria-rowcount={size + 1}
      aria-colcount={columns.length + 1}
      aria-activedescendant={active && place && inside(slotOf(place), scroller.seen) ? active : undefined}
      tabIndex={0}
      onScroll={scrolled}
      onClick={(event) => choose(model, event)}
    >
      <Head model={model} columns={columns} top={scroller.top} only={only} />
      <div role="rowgroup" class="ledger-body" style={{ height: `${size * ROW}px` }}>
        <div role="presentation" class="ledger-rows" style={{ top: `${scroller.seen.first * ROW}px` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

function inside(slot: number, seen: { first: number; end: number }): boolean {
  return slot >= seen.first && slot < seen.end;
}

/** Scrolls to the place, with what is lit beside it, whenever the place changes. */
function useShownPlace(model: TurnModel, only: Column | undefined, show: (first: number, last?: number) => void): void {
  useSignalEffect(() => {
    const place = model.place.value;
    if (!place) return;
    const links = model.links.value;
    if (only) {
      const own = only === place.column ? place : links.across(place, only);
      if (own) show(own.index);
      return;
    }
    const slot = model.order.value.slots[place.column][place.index] ?? 0;
    const { first, last } = links.reachOf(model.lit.value);
    show(Math.min(first, slot), Math.max(last, slot));
    show(slot);
  });
}

/** A live turn is followed while the reader stands at the end and has not scrolled away from it. */
function useFollow(model: TurnModel, size: number, scroller: Scroller<HTMLDivElement>): () => void {
  const done = model.trace.value.done;
  const follows = useRef(!done);
  const last = useRef(0);
  useEffect(() => {
    if (follows.current && model.place.value === null && size) scroller.show(size - 1);
    if (done) follows.current = false;
  }, [size, done]);
  return () => {
    scroller.onScroll();
    const top = scroller.ref.current?.scrollTop ?? 0;
    // Rows may have come since the scrolling that this tells of: only the way back up is the reader's own.
    if (top < last.current) follows.current = false;
    else if (!done && scroller.atEnd()) follows.current = true;
    last.current = top;
  };
}

function choose(model: TurnModel, event: MouseEvent): void {
  const cell = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-at]") : null;
  const [column, index] = cell?.dataset.at?.split(" ") ?? [];
  if (column && index) model.choose({ column: column as Column, index: Number(index) });
}

function Head({ model, columns, top, only }: HeadProps) {
  const order = model.order.value;
  const group = order.groupAt[top] ?? 0;
  const from = order.slots.frames[group];
  // The frame of a long group stays in sight while its events and outputs pass by.
  const held = !only && from !== undefined && from < top ? group : null;
  return (
    <div role="rowgroup" class="ledger-head">
      <div role="row" class="ledger-row">
        <div role="columnheader" class="gutter">
          {model.clock.value.timed ? "Time" : "#"}
        </div>
        {columns.map((column) => (
          <div
            key={column}
            role="columnheader"
            class={model.column.value === column ? "ledger-title current" : "ledger-title"}
          >
            {TITLES[column]} <span class="count">{order.counts[column].toLocaleString("en")}</span>
          </div>
        ))}
      </div>
      {held !== null && (
        <div class="ledger-held" aria-hidden="true">
          <div class="gutter">{gutter(model, held)}</div>
          <Cell model={model} place={{ column: "frames", index: held }} copy />
        </div>
      )}
    </div>
  );
}

interface HeadProps extends Props {
  columns: readonly Column[];
  top: number;
}

interface RowProps extends Props {
  slot: number;
  columns: readonly Column[];
}

function Row({ model, slot, columns, only }: RowProps) {
  const order = model.order.value;
  const first = columns[0] as Column;
  const group = only ? (only === "frames" ? slot : (order.groups[only][slot] ?? 0)) : (order.groupAt[slot] ?? 0);
  const begins = only ? true : order.slots.frames[group] === slot || order.groupAt[slot - 1] !== group;
  return (
    <div role="row" class={begins && first ? "ledger-row begins" : "ledger-row"} aria-rowindex={slot + 2}>
      <div role="gridcell" class="gutter">
        {begins && gutter(model, group)}
      </div>
      {columns.map((column) => {
        const index = only ? slot : (order.at[column][slot] ?? -1);
        if (index < 0) return <div key={column} role="gridcell" class="cell none" />;
        return <Cell key={column} model={model} place={{ column, index }} />;
      })}
    </div>
  );
}

/** A wait that a reader would feel. */
const LONG_WAIT = 1;

function gutter(model: TurnModel, group: number) {
  const clock = model.clock.value;
  if (group >= model.order.value.counts.frames) return <span class="gutter-end">end</span>;
  if (!clock.timed) return `#${group}`;
  const time = clock.timeOf(group);
  const wait = time - (group > 0 ? clock.timeOf(group - 1) : 0);
  if (wait < LONG_WAIT) return time.toFixed(3);
  return (
    <span class="gutter-wait" title={`after a wait of ${formatSeconds(wait)}`}>
      {time.toFixed(3)}
    </span>
  );
}
