// The three columns on one axis of time, top to bottom: a cause and its effects stand side by side. Draws only the rows
// that are seen. With `only`, one column by itself, for narrow windows.
import "./ledger.css";
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Scroller, useScroller } from "../ui/useScroller.ts";
import { Cell, cellId } from "./Cell.tsx";
import { lastUpTo } from "./linking.ts";
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
  const shown = shownRows(model, only);
  const size = shown?.length ?? (only ? order.counts[only] : order.size);
  const scroller = useScroller<HTMLDivElement>(size, ROW, HEAD);
  useShownPlace(model, only, scroller);
  useShownEnd(model, size, scroller);
  const scrolled = useFollow(model, size, scroller);
  const rows = [];
  for (let row = scroller.seen.first; row < scroller.seen.end; row++) {
    const [slot, before] = shown ? [shown[row] ?? 0, shown[row - 1] ?? -1] : [row, row - 1];
    rows.push(<Row key={slot} model={model} slot={slot} before={before} row={row} columns={columns} only={only} />);
  }
  return (
    <div
      ref={scroller.ref}
      class={only ? "ledger one" : "ledger"}
      role="grid"
      aria-label={only ? TITLES[only] : "Frames, events and what the client got"}
      aria-rowcount={size + 1}
      aria-colcount={columns.length + 1}
      aria-activedescendant={activeCell(model, only, scroller)}
      tabIndex={0}
      onScroll={scrolled}
      onClick={(event) => choose(model, event)}
    >
      <Head model={model} columns={columns} top={shown ? -1 : scroller.top} only={only} />
      <div role="rowgroup" class="ledger-body" style={{ height: `${size * ROW}px` }}>
        <div role="presentation" class="ledger-rows" style={{ top: `${scroller.seen.first * ROW}px` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

/** The slots (or, of one column, the items) that are shown; null: all. */
function shownRows(model: TurnModel, only: Column | undefined): number[] | null {
  const slots = model.shownSlots.value;
  if (!slots || !only) return slots;
  return [...(model.hits.value?.items[only].keys() ?? [])].sort((a, b) => a - b);
}

/** In which row a place stands; that of the one before it, if it is not shown itself. */
function rowOf(model: TurnModel, only: Column | undefined, place: Place): number {
  const slot = only ? place.index : (model.order.value.slots[place.column][place.index] ?? 0);
  const shown = shownRows(model, only);
  return shown ? Math.max(0, lastUpTo(shown, slot)) : slot;
}

/** The id of the chosen cell, if it is drawn. */
function activeCell(model: TurnModel, only: Column | undefined, { seen }: Scroller<HTMLElement>): string | undefined {
  const place = model.place.value;
  if (!place || (only && only !== place.column)) return undefined;
  const row = rowOf(model, only, place);
  return row >= seen.first && row < seen.end ? cellId(place) : undefined;
}

/** Scrolls to the place, with what is lit beside it, whenever the place changes. While it plays, to the middle. */
function useShownPlace(model: TurnModel, only: Column | undefined, scroller: Scroller<HTMLElement>): void {
  useSignalEffect(() => {
    const place = model.place.value;
    if (!place) return;
    const own = only && only !== place.column ? model.links.value.across(place, only) : place;
    if (!own) return;
    const row = rowOf(model, only, own);
    if (model.playing.value) return scroller.center(row);
    if (!only && !model.shownSlots.value) {
      const { first, last } = model.links.value.reachOf(model.lit.value);
      scroller.show(Math.min(first, row), Math.max(last, row));
    }
    scroller.show(row);
  });
}

/** Scrolls to the last row whenever the reader goes to the end. */
function useShownEnd(model: TurnModel, size: number, scroller: Scroller<HTMLElement>): void {
  const seen = useRef(model.endings.peek());
  useSignalEffect(() => {
    const endings = model.endings.value;
    if (endings !== seen.current && size) scroller.show(size - 1);
    seen.current = endings;
  });
}

/** A live turn is followed while the reader stands at the end and has not scrolled away from it. */
function useFollow(model: TurnModel, size: number, scroller: Scroller<HTMLDivElement>): () => void {
  const { done, progress = 1 } = model.trace.value;
  // While the pages of a long turn come, the reader stays at its beginning.
  const live = !done && progress >= 1;
  const follows = useRef(live);
  const began = useRef(live);
  const last = useRef(0);
  useEffect(() => {
    if (live && !began.current) began.current = follows.current = true;
    if (follows.current && model.place.value === null && size) scroller.show(size - 1);
    if (done) follows.current = false;
  }, [size, live, done]);
  return () => {
    scroller.onScroll();
    const top = scroller.ref.current?.scrollTop ?? 0;
    // Rows may have come since the scrolling that this tells of: only the way back up is the reader's own.
    if (top < last.current) follows.current = false;
    else if (live && scroller.atEnd()) follows.current = true;
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
  const held = !only && top >= 0 && from !== undefined && from < top ? group : null;
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
  /** The slot of the row above, -1 for none. */
  before: number;
  row: number;
  columns: readonly Column[];
}

function Row({ model, slot, before, row, columns, only }: RowProps) {
  const order = model.order.value;
  const first = columns[0] as Column;
  const group = only ? (only === "frames" ? slot : (order.groups[only][slot] ?? 0)) : (order.groupAt[slot] ?? 0);
  const begins = only ? true : order.slots.frames[group] === slot || order.groupAt[before] !== group;
  return (
    <div role="row" class={begins && first ? "ledger-row begins" : "ledger-row"} aria-rowindex={row + 2}>
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

function gutter(model: TurnModel, group: number) {
  const clock = model.clock.value;
  if (group >= model.order.value.counts.frames) return <span class="gutter-end">end</span>;
  if (!clock.timed) return `#${group + 1}`;
  const time = clock.timeOf(group).toFixed(3);
  return model.gapAt.value.has(group) ? <span class="gutter-wait">{time}</span> : time;
}
