// One frame, event or output in a row of the ledger.
import type { Mark } from "../api/types.ts";
import { formatBytes } from "../ui/format.ts";
import { Icon } from "../ui/Icon.tsx";
import { formatSeconds } from "./clock.ts";
import { kindOf, lineOf, partOf } from "./describe.ts";
import { glance } from "./glance.ts";
import type { TurnModel } from "./model.ts";
import { type Place, samePlace } from "./order.ts";
import { payloadLine } from "./payloadLine.ts";

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
  const found = model.hits.value?.items[column].get(index);
  if (found !== undefined) classes.push("hit");
  if (index >= model.reach.value[column]) classes.push("later");
  if (column === "events") classes.push(`kind-${kindOf(model.trace.value.events[index]?.type ?? "")}`);
  const marks = model.marks.value[column].get(index);
  const about = copy ? {} : { id: cellId(place), role: "gridcell" as const, "aria-selected": chosen };
  return (
    <div {...about} class={classes.join(" ")} data-at={`${column} ${index}`}>
      <Content model={model} place={place} found={found ?? ""} />
      {column === "frames" && <GapSign wait={model.gapAt.value.get(index)} />}
      {marks && <MarkSign marks={marks} />}
    </div>
  );
}

/** How long nothing had come before this frame. */
function GapSign({ wait }: { wait: number | undefined }) {
  if (wait === undefined) return null;
  return <span class="gap" title={`Nothing came for ${formatSeconds(wait)}`}>{`after ${formatSeconds(wait)}`}</span>;
}

/** A text with what was found in it. `name` stands before it: what is in neither is shown first. */
function Marked({ text, found, name }: { text: string; found: string; name?: string }) {
  const wanted = glance(found);
  const at = wanted ? text.indexOf(wanted) : -1;
  if (at < 0) {
    const hidden = wanted !== "" && name !== undefined && !name.includes(wanted);
    return (
      <>
        {hidden && <mark>{wanted}</mark>}
        {hidden && " "}
        {text}
      </>
    );
  }
  return (
    <>
      <span>{text.slice(0, at)}</span>
      <mark>{wanted}</mark>
      <span>{text.slice(at + wanted.length)}</span>
    </>
  );
}

function Content({ model, place, found }: Props & { found: string }) {
  const trace = model.trace.value;
  if (place.column === "events") {
    const event = trace.events[place.index];
    if (!event) return null;
    const part = partOf(event);
    return (
      <>
        <span class="chip">
          <Marked text={event.type} found={found} />
        </span>
        {part !== null && <span class="part">{part}</span>}
        <span class="glance">
          <Marked text={lineOf(event)} found={found} name={event.type} />
        </span>
      </>
    );
  }
  const item = trace[place.column][place.index];
  if (!item) return null;
  const { name, line } = payloadLine(trace[place.column], place.index);
  return (
    <>
      {name && (
        <span class="name">
          <bdi>
            <Marked text={name} found={found} />
          </bdi>
        </span>
      )}
      <span class="glance">
        <Marked text={line} found={found} name={name} />
      </span>
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
