// The rows of the list: a grid on a wide window, cards on a narrow one. Draws only what is seen, and asks for the pages
// of the history that are shown.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { formatCost, formatCount, formatDuration, formatTime } from "../ui/format.ts";
import { PHONE, useMedia } from "../ui/useMedia.ts";
import { useScroller } from "../ui/useScroller.ts";
import { useWidth } from "../ui/useWidth.ts";
import { settings } from "./columnSettings.ts";
import { columnsFor, type ListColumn, Model } from "./columns.tsx";
import { Silence } from "./Elapsed.tsx";
import { ListHead } from "./ListHead.tsx";
import { isRunning } from "./listing.ts";
import { loadRows } from "./live.ts";
import { previewOf, wantPreviews } from "./previews.ts";
import { StateSign } from "./StateSign.tsx";

const ROW = 28;
const CARD = 58;
const HEAD = 30;

export interface Sorting {
  sort: string;
  ascending: boolean;
}

interface Props {
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
  const { live, total, chosen, chosenPlace, sorting, onSort, onColumns, onOpen } = props;
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
  useStillRows(scroller.ref, live.length, height);
  const { widths } = settings.value;
  const template = {
    gridTemplateColumns: columns.map(({ id, width }) => (widths[id] ? `${widths[id]}px` : width)).join(" "),
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
      class="list"
      role="grid"
      aria-label="Requests, newest first"
      aria-rowcount={count + 1}
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

function ListRow({ row, place, chosen, columns, template }: RowProps) {
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
      {columns ? columns.map((column) => <ListCell key={column.id} column={column} row={row} />) : <Card row={row} />}
    </div>
  );
}

function ListCell({ column, row }: { column: ListColumn; row: Row }) {
  return (
    <div
      role="gridcell"
      class={`col-${column.id}${column.right ? " right" : ""}`}
      title={column.whole?.(row) || undefined}
    >
      {column.show(row)}
      {column.id === "state" && isRunning(row) && <Silence row={row} />}
    </div>
  );
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
  const spent = row.output === null ? "" : `${formatCount(row.input)} → ${formatCount(row.output)}`;
  const words = row.fault ? `${row.fault} ${row.message}` : previewOf(row).prompt || facts.filter(Boolean).join(" · ");
  return (
    <div role="gridcell" class="card-cell">
      <div class="card-line">
        <Model row={row} />
        <StateSign row={row} />
      </div>
      <div class="card-line faint">
        <span class="cut">{isRunning(row) ? <Silence row={row} /> : words}</span>
        <span>
          {[spent, row.cost === null ? "" : formatCost(row.cost), formatTime(row.time)].filter(Boolean).join(" · ")}
        </span>
      </div>
    </div>
  );
}
