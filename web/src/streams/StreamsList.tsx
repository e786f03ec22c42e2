// The rows of the list: a grid on a wide window, cards on a narrow one. Draws only what is seen.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Row } from "../api/types.ts";
import { formatCost, formatCount, formatDuration, formatTime } from "../ui/format.ts";
import { PHONE, useMedia } from "../ui/useMedia.ts";
import { useScroller } from "../ui/useScroller.ts";
import { columnsFor, type ListColumn, Model } from "./columns.tsx";
import { StateSign } from "./StateSign.tsx";

const ROW = 28;
const CARD = 58;
const HEAD = 30;

interface Props {
  rows: Row[];
  chosen: string;
  onChoose: (id: string) => void;
  onOpen: (id: string) => void;
  onOlder: (() => void) | null;
}

export function StreamsList({ rows, chosen, onChoose, onOpen, onOlder }: Props) {
  const phone = useMedia(PHONE);
  const height = phone ? CARD : ROW;
  const scroller = useScroller<HTMLDivElement>(rows.length, height, phone ? 0 : HEAD);
  const columns = useColumns(scroller.ref);
  const at = rows.findIndex((row) => row.id === chosen);
  useEffect(() => {
    if (at >= 0) scroller.show(at);
  }, [chosen]);
  const template = { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  const { first, end } = scroller.seen;
  const press = (event: MouseEvent) => {
    const id = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-id]")?.dataset.id : undefined;
    if (!id || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    onChoose(id);
    onOpen(id);
  };
  return (
    <div
      ref={scroller.ref}
      class="list"
      role="grid"
      aria-label="Turns, newest first"
      aria-rowcount={rows.length + 1}
      aria-activedescendant={at >= first && at < end ? `row-${chosen}` : undefined}
      tabIndex={0}
      onScroll={scroller.onScroll}
      onClick={press}
    >
      {!phone && <Head columns={columns} template={template} />}
      <div role="rowgroup" class="list-body" style={{ height: `${rows.length * height}px` }}>
        <div role="presentation" class="list-rows" style={{ top: `${first * height}px` }}>
          {rows.slice(first, end).map((row, index) => (
            <div
              key={row.id}
              id={`row-${row.id}`}
              role="row"
              class={phone ? "turn-card" : "list-row"}
              data-id={row.id}
              aria-rowindex={first + index + 2}
              aria-selected={row.id === chosen}
              style={phone ? {} : template}
            >
              {phone ? (
                <Card row={row} />
              ) : (
                columns.map((column) => <ListCell key={column.id} column={column} row={row} />)
              )}
            </div>
          ))}
        </div>
      </div>
      {onOlder && <Older onOlder={onOlder} />}
    </div>
  );
}

function useColumns(ref: { current: HTMLElement | null }): ListColumn[] {
  const [columns, setColumns] = useState(() => columnsFor(innerWidth));
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => {
      const next = columnsFor(element.clientWidth);
      setColumns((old) => (old.length === next.length ? old : next));
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [ref]);
  return columns;
}

function Head({ columns, template }: { columns: ListColumn[]; template: Record<string, string> }) {
  return (
    <div role="rowgroup" class="list-head">
      <div role="row" class="list-row" style={template}>
        {columns.map((column) => (
          <div
            key={column.id}
            role="columnheader"
            class={`col-${column.id}${column.right ? " right" : ""}`}
            title={column.hint}
          >
            {column.title}
          </div>
        ))}
      </div>
    </div>
  );
}

function ListCell({ column, row }: { column: ListColumn; row: Row }) {
  return (
    <div role="gridcell" class={`col-${column.id}${column.right ? " right" : ""}`}>
      {column.show(row)}
    </div>
  );
}

function Card({ row }: { row: Row }) {
  const facts = [row.client, row.provider, row.ttft === null ? "" : formatDuration(row.ttft)];
  const spent = row.output === null ? "" : `${formatCount(row.input)} → ${formatCount(row.output)}`;
  return (
    <div role="gridcell" class="card-cell">
      <div class="card-line">
        <Model row={row} />
        <StateSign row={row} />
      </div>
      <div class="card-line faint">
        <span class="cut">{row.fault ? `${row.fault} ${row.message}` : facts.filter(Boolean).join(" · ")}</span>
        <span>
          {[spent, row.cost === null ? "" : formatCost(row.cost), formatTime(row.time)].filter(Boolean).join(" · ")}
        </span>
      </div>
    </div>
  );
}

function Older({ onOlder }: { onOlder: () => void }) {
  return (
    <div role="rowgroup" class="list-foot">
      <div role="row">
        <div role="gridcell">
          <button type="button" onClick={onOlder}>
            Older turns
          </button>
        </div>
      </div>
    </div>
  );
}
