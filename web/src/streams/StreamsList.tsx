// The rows of the list: a grid on a wide window, cards on a narrow one. Draws only what is seen, and asks for the pages
// of the history that are shown.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { formatCost, formatCount, formatDuration, formatTime } from "../ui/format.ts";
import { PHONE, useMedia } from "../ui/useMedia.ts";
import { useScroller } from "../ui/useScroller.ts";
import { useWidth } from "../ui/useWidth.ts";
import { settings } from "./columnSettings.ts";
import { columnsCoveredByState, columnsFor, type ListColumn, Model, trackOf } from "./columns.tsx";
import { Progress, Silence } from "./Elapsed.tsx";
import { ListHead } from "./ListHead.tsx";
import { isRunning } from "./listing.ts";
import { loadRows, searching, unreadable } from "./live.ts";
import { previewOf, wantPreviews } from "./previews.ts";
import { StateSign } from "./StateSign.tsx";
import { shownRow } from "./shownRow.ts";

const ROW = 28;
const CARD = 58;
const HEAD = 30;

export interface Sorting {
  sort: string;
  ascending: boolean;
}

interface Props {
  /** What is searched for, and the order: another search begins at the top. */
  search: string;
  /** Turns above the history. */
  live: Row[];
  /** Turns of the history. */
  total: number;
  rowAt: (place: number) => Row | undefined;
  /** The chosen row's place among all. */
  chosenPlace: number;
  chosen: string;
  sorting: Sorting;
  onSort: (sort: string) => void;
  onColumns: (ids: string[]) => void;
  onOpen: (id: string, place: number) => void;
}

export function StreamsList(props: Props) {
  const { search, live, total, chosen, chosenPlace, sorting, onSort, onColumns, onOpen } = props;
  const phone = useMedia(PHONE);
  const height = phone ? CARD : ROW;
  const count = live.length + total;
  const scroller = useScroller<HTMLDivElement>(count, height, phone ? 0 : HEAD);
  const columns = useColumns(scroller.ref, onColumns);
  const { first, end } = scroller.seen;
  useEffect(() => loadRows(first - live.length, end - live.length), [first, end, live.length, total, props.rowAt]);
  const previewed = phone || columns.some(({ id }) => id === "prompt" || id === "answer");
  useEffect(() => {
    if (previewed) wantPreviews(rowsBetween(props, first, end));
  });
  useEffect(() => {
    if (chosenPlace >= 0) scroller.show(chosenPlace);
  }, [chosenPlace]);
  useTopOfSearch(scroller.ref, search);
  useStillRows(scroller.ref, live.length, height);
  const { widths } = settings.value;
  const template = {
    gridTemplateColumns: columns.map((column) => trackOf(column, widths)).join(" "),
  };
  const press = (event: MouseEvent) => {
    const found = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-id]") : null;
    if (!found?.dataset.id || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    onOpen(found.dataset.id, Number(found.dataset.place));
  };
  const places = Array.from({ length: Math.max(end - first, 0) }, (_, index) => first + index);
  return (
    <div
      ref={scroller.ref}
      class={`list ${unreadable.value ? "outdated" : ""}`}
      role="grid"
      aria-label="Requests, newest first"
      aria-rowcount={count + 1}
      aria-busy={searching.value}
      aria-activedescendant={chosenPlace >= first && chosenPlace < end ? `row-${chosen}` : undefined}
      tabIndex={0}
      onScroll={scroller.onScroll}
      onClick={press}
    >
      {!phone && <ListHead columns={columns} template={template} sorting={sorting} onSort={onSort} />}
      <div role="rowgroup" class="list-body" style={{ height: `${count * height}px` }}>
        <div role="presentation" class="list-rows" style={{ top: `${first * height}px` }}>
          {places.map((place) => {
            const [row] = rowsBetween(props, place, place + 1);
            return row ? (
              <ListRow
                key={row.id}
                row={row}
                place={place}
                chosen={row.id === chosen}
                columns={phone ? null : columns}
                template={template}
              />
            ) : (
              <div key={place} role="row" aria-rowindex={place + 2} class={phone ? "turn-card" : "list-row"}>
                <div role="gridcell" class="faint">
                  …
                </div>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** The rows of some places; undefined where a page has not come. */
function rowsBetween({ live, rowAt }: Props, first: number, end: number): (Row | undefined)[] {
  const places = Array.from({ length: Math.max(end - first, 0) }, (_, index) => first + index);
  return places.map((place) => (place < live.length ? live[place] : rowAt(place - live.length)));
}

interface RowProps {
  row: Row;
  place: number;
  chosen: boolean;
  columns: ListColumn[] | null;
  template: Record<string, string>;
}

function ListRow({ row: wire, place, chosen, columns, template }: RowProps) {
  const row = shownRow(wire);
  return (
    <div
      id={`row-${row.id}`}
      role="row"
      class={columns ? "list-row" : "turn-card"}
      data-id={row.id}
      data-place={place}
      aria-rowindex={place + 2}
      aria-selected={chosen}
      style={columns ? template : {}}
    >
      {columns ? <Cells row={row} columns={columns} /> : <Card row={row} />}
    </div>
  );
}

/** The state of a running turn needs more room: it covers the columns beside it that are empty meanwhile. */
function Cells({ row, columns }: { row: Row; columns: ListColumn[] }) {
  const covered = isRunning(row) ? columns.flatMap((column) => columnsCoveredByState(column, columns)) : [];
  const cells = columns.filter((column) => !covered.includes(column));
  return (
    <>
      {cells.map((column) => (
        <ListCell key={column.id} column={column} row={row} span={column.id === "state" ? 1 + covered.length : 1} />
      ))}
    </>
  );
}

function ListCell({ column, row, span }: { column: ListColumn; row: Row; span: number }) {
  return (
    <div
      role="gridcell"
      class={`col-${column.id}${column.right ? " right" : ""}`}
      title={column.whole?.(row) || undefined}
      dir={column.words ? "auto" : undefined}
      aria-colspan={span > 1 ? span : undefined}
      style={span > 1 ? { gridColumn: `span ${span}` } : undefined}
    >
      {column.show(row)}
      {column.id === "state" && isRunning(row) && <Silence row={row} />}
    </div>
  );
}

/** Another search is shown from its first row on. A list that is shown again stays where its chosen row is. */
function useTopOfSearch(ref: { current: HTMLElement | null }, search: string): void {
  const before = useRef(search);
  useLayoutEffect(() => {
    if (ref.current && before.current !== search) ref.current.scrollTop = 0;
    before.current = search;
  }, [search]);
}

/** Rows that are looked at stay where they are when new ones come above them. */
function useStillRows(ref: { current: HTMLElement | null }, above: number, height: number): void {
  const before = useRef(above);
  useLayoutEffect(() => {
    const element = ref.current;
    const more = above - before.current;
    before.current = above;
    if (element && more > 0 && element.scrollTop > height) element.scrollTop += more * height;
  }, [above]);
}

function useColumns(ref: { current: HTMLElement | null }, onColumns: (ids: string[]) => void): ListColumn[] {
  const columns = columnsFor(useWidth(ref, innerWidth), settings.value.shown);
  const ids = columns.map(({ id }) => id).join(" ");
  useEffect(() => onColumns(ids.split(" ")), [ids]);
  return columns;
}

function Card({ row }: { row: Row }) {
  const facts = [row.client || row.agent, row.provider, row.ttft === null ? "" : formatDuration(row.ttft)];
  const tokens = row.output === null ? "" : `${formatCount(row.input)} → ${formatCount(row.output)}`;
  const cost = row.cost === null ? "" : formatCost(row.cost);
  const spent = [tokens, cost, formatTime(row.time)].filter(Boolean).join(" · ");
  const words = row.fault ? `${row.fault} ${row.message}` : previewOf(row).prompt || facts.filter(Boolean).join(" · ");
  return (
    <div role="gridcell" class="card-cell">
      <div class="card-line">
        <Model row={row} />
        <StateSign row={row} />
      </div>
      <div class="card-line faint">
        <span class="cut" dir="auto">
          {isRunning(row) ? <Progress row={row} /> : words}
        </span>
        <span>{isRunning(row) ? formatTime(row.time) : spent}</span>
      </div>
    </div>
  );
}
