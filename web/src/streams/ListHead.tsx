// The head of the list: sorts by a press, resizes by dragging an edge or by arrows on it.
import { keepSettings, limitWidth, settings } from "./columnSettings.ts";
import type { ListColumn } from "./columns.tsx";
import type { Sorting } from "./StreamsList.tsx";

interface Props {
  columns: ListColumn[];
  template: Record<string, string>;
  sorting: Sorting;
  onSort: (sort: string) => void;
}

export function ListHead({ columns, template, sorting, onSort }: Props) {
  return (
    <div role="rowgroup" class="list-head">
      <div role="row" class="list-row" style={template}>
        {columns.map((column) => (
          <HeadCell key={column.id} column={column} sorting={sorting} onSort={onSort} />
        ))}
      </div>
    </div>
  );
}

function HeadCell({
  column,
  sorting,
  onSort,
}: {
  column: ListColumn;
  sorting: Sorting;
  onSort: (sort: string) => void;
}) {
  const { sort, title, hint } = column;
  const sorted = sort !== undefined && sort === sorting.sort;
  const order = sorting.ascending ? "ascending" : "descending";
  return (
    <div
      role="columnheader"
      class={`col-${column.id}${column.right ? " right" : ""}`}
      title={hint}
      aria-sort={sorted ? order : undefined}
    >
      {sort === undefined ? (
        title
      ) : (
        <button type="button" class="plain sort" aria-label={`Sort by ${title}`} onClick={() => onSort(sort)}>
          {title}
          {sorted && <span aria-hidden="true">{sorting.ascending ? " ▲" : " ▼"}</span>}
        </button>
      )}
      <Edge column={column} />
    </div>
  );
}

const STEP = 16;
const STEPS: Record<string, number> = { ArrowLeft: -STEP, ArrowRight: STEP };

/** The right edge of a column. */
function Edge({ column }: { column: ListColumn }) {
  const resize = (width: number) => {
    const { widths } = settings.value;
    keepSettings({ ...settings.value, widths: { ...widths, [column.id]: limitWidth(width) } });
  };
  const drag = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    event.preventDefault();
    event.stopPropagation();
    const edge = event.currentTarget;
    const begin = event.clientX - widthOf(edge);
    edge.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent) => resize(moved.clientX - begin);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
  };
  const press = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const by = STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    resize(widthOf(event.currentTarget) + by);
  };
  return (
    <button
      type="button"
      class="plain edge"
      tabIndex={-1}
      aria-label={`Width of ${column.label ?? column.title}: arrows change it`}
      onPointerDown={drag}
      onKeyDown={press}
      onClick={(event) => event.stopPropagation()}
    />
  );
}

function widthOf(edge: HTMLElement): number {
  return edge.parentElement?.getBoundingClientRect().width ?? STEP;
}
