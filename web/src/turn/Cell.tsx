// One frame, event or output in a row of the ledger.
import type { Mark } from "../api/types.ts";
import { formatBytes } from "../ui/format.ts";
import { Icon } from "../ui/Icon.tsx";
import { kindOf, lineOf, partOf, payloadLine } from "./describe.ts";
import type { TurnModel } from "./model.ts";
import { type Place, samePlace } from "./order.ts";

export function cellId(place: Place): string {
  return `cell-${place.column}-${place.index}`;
}

interface Props {
  model: TurnModel;
  place: Place;
  /** The same once more, held at the top. */
  copy?: boolean;
}

export function Cell({ model, place, copy }: Props) {
  const { column, index } = place;
  const chosen = samePlace(model.place.value, place);
  const classes = ["cell", column];
  if (chosen) classes.push("chosen");
  else if (model.isLit(place)) classes.push("lit");
  if (index >= model.reach.value[column]) classes.push("later");
  if (column === "events") classes.push(`kind-${kindOf(model.trace.value.events[index]?.type ?? "")}`);
  const marks = model.marks.value[column].get(index);
  const about = copy ? {} : { id: cellId(place), role: "gridcell" as const, "aria-selected": chosen };
  return (
    <div {...about} class={classes.join(" ")} data-at={`${column} ${index}`}>
      <Content model={model} place={place} />
      {marks && <MarkSign marks={marks} />}
    </div>
  );
}

function Content({ model, place }: Props) {
  const trace = model.trace.value;
  if (place.column === "events") {
    const event = trace.events[place.index];
    if (!event) return null;
    const part = partOf(event);
    return (
      <>
        <span class="chip">{event.type}</span>
        {part !== null && <span class="part">{part}</span>}
        <span class="glance">{lineOf(event)}</span>
      </>
    );
  }
  const item = trace[place.column][place.index];
  if (!item) return null;
  return (
    <>
      {item.name && (
        <span class="name">
          <bdi>{item.name}</bdi>
        </span>
      )}
      <span class="glance">{payloadLine(trace[place.column], place.index)}</span>
      {item.size > 2000 && <span class="size">{formatBytes(item.size)}</span>}
    </>
  );
}

const RANKS = { info: 0, warning: 1, error: 2 };

export function MarkSign({ marks }: { marks: Mark[] }) {
  const worst = marks.reduce((a, b) => (RANKS[b.level] > RANKS[a.level] ? b : a));
  const said = marks.map((mark) => `${mark.code}: ${mark.message}`).join("\n");
  return (
    <span class={`sign ${worst.level}`} title={said} role="img" aria-label={`${worst.level}: ${said}`}>
      <Icon name={worst.level === "info" ? "info" : "warn"} />
    </span>
  );
}
