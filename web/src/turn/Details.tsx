// The chosen frame, event or output: what it holds, its cause and its effects.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { explain } from "../api/client.ts";
import type { Trace } from "../api/types.ts";
import { CopyButton } from "../message/CodeBlock.tsx";
import { formatBytes } from "../ui/format.ts";
import { firstHit, type Highlight, highlightText } from "../ui/highlight.ts";
import { JsonView } from "../ui/JsonView.tsx";
import { LongText } from "../ui/LongText.tsx";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { kindOf } from "./describe.ts";
import type { FindQuery } from "./find.ts";
import type { TurnModel } from "./model.ts";
import { Note } from "./Notes.tsx";
import { COLUMNS, type Column, type Place } from "./order.ts";
import { raw } from "./raw.ts";
import type { Whole } from "./whole.ts";

const NAMES: Record<Column, string> = { frames: "Frame", events: "Event", outputs: "Output" };
const FORMS: Choice<"pretty" | "raw">[] = [
  { value: "pretty", label: "pretty" },
  { value: "raw", label: "raw" },
];
/** More links than this are said as a number. */
const MOST_LINKS = 8;

interface Props {
  model: TurnModel;
  whole?: Whole | undefined;
}

export function Details({ model, whole }: Props) {
  const place = model.place.value;
  const item = place && itemAt(model.trace.value, place);
  if (!place || !item) {
    return <p class="hint">Choose a frame, an event or an output to see it here, with its cause and its effects.</p>;
  }
  const marks = model.marks.value[place.column].get(place.index) ?? [];
  const found = model.hits.value?.items[place.column].get(place.index);
  const key = `${model.trace.value.consumer} ${place.column} ${place.index}`;
  return (
    <div class="details" key={key}>
      <div class="details-head">
        <h3>{`${NAMES[place.column]} ${place.index + 1}`}</h3>
        {item.title && <span class={`details-name kind-${item.kind}`}>{visibleText(item.title)}</span>}
        <span class="details-size">{formatBytes(item.size)}</span>
        <CopyButton text={item.text} what={`${NAMES[place.column].toLowerCase()} ${place.index + 1}`} />
        <CopyLink />
        <Form />
      </div>
      <LinkList model={model} place={place} />
      {marks.map((mark, index) => (
        <Note key={index} mark={mark} />
      ))}
      <Text key={key} item={item} place={place} whole={whole} query={model.query.value} found={found} />
    </div>
  );
}

/** Less of a match that came in several pieces would be marked everywhere. */
const LEAST_PIECE = 3;

/** What is marked in a text: all that was searched for, or the piece of it that this event has. */
function highlightOf(text: string, query: FindQuery, found: string | undefined): Highlight | undefined {
  if (!query.text || found === undefined) return undefined;
  const sought = query.regex ? undefined : highlightText(query.text, query.matchCase);
  if (sought && firstHit(text, sought) >= 0) return sought;
  return query.regex || found.length >= LEAST_PIECE ? highlightText(found, true) : undefined;
}

interface Item {
  title: string;
  kind: string;
  text: string;
  size: number;
  cut: boolean;
}

function itemAt(trace: Trace, { column, index }: Place): Item | null {
  if (column === "events") {
    const event = trace.events[index];
    if (!event) return null;
    const text = JSON.stringify({ type: event.type, ...event.body });
    return { title: event.type, kind: kindOf(event.type), text, size: text.length, cut: false };
  }
  const item = trace[column][index];
  return item ? { title: item.name, kind: "other", text: item.data, size: item.size, cut: item.cut ?? false } : null;
}

/** The address of this very frame, event or output. */
function CopyLink() {
  return <CopyButton text={() => location.href} what="link" label="Copy link" />;
}

function Form() {
  const show = (form: "pretty" | "raw") => {
    raw.value = form === "raw";
  };
  return <Switch label="Form" small choices={FORMS} chosen={raw.value ? "raw" : "pretty"} onChoose={show} />;
}

interface TextProps {
  item: Item;
  place: Place;
  whole?: Whole | undefined;
  query: FindQuery;
  found: string | undefined;
}

function Text({ item, place, whole, query, found }: TextProps) {
  const [got, setGot] = useState<string | null>(null);
  const [error, setError] = useState("");
  const text = got ?? item.text;
  const { column, index } = place;
  const asks = item.cut && got === null && column !== "events";
  const more = asks && whole ? () => whole(column, index).then(setGot, (why) => setError(explain(why))) : undefined;
  const highlight = useMemo(() => highlightOf(text, query, found), [text, query, found]);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (highlight) box.current?.querySelector("mark")?.scrollIntoView({ block: "nearest" });
  }, [highlight]);
  return (
    <div ref={box} class="details-text">
      {raw.value ? (
        <LongText text={text} more={more} size={item.size} highlight={highlight} />
      ) : (
        <JsonView text={text} more={more} size={item.size} highlight={highlight} />
      )}
      {asks && !whole && <p class="hint">{`The rest of ${formatBytes(item.size)} is not in this file.`}</p>}
      {error && <p class="error">{error}</p>}
    </div>
  );
}

function LinkList({ model, place }: { model: TurnModel; place: Place }) {
  const lit = model.lit.value;
  const here = COLUMNS.indexOf(place.column);
  return (
    <ul class="link-list" aria-label="Causes and effects">
      {COLUMNS.filter((column) => column !== place.column).map((column) => (
        <li key={column}>
          <span>{COLUMNS.indexOf(column) < here ? "caused by" : "caused"}</span>
          {lit[column].slice(0, MOST_LINKS).map((index) => (
            <button key={index} type="button" class="link" onClick={() => model.choose({ column, index })}>
              {`${NAMES[column].toLowerCase()} ${index + 1}`}
            </button>
          ))}
          {lit[column].length > MOST_LINKS && <span>{`and ${lit[column].length - MOST_LINKS} more`}</span>}
          {lit[column].length === 0 && <span>{`no ${column === "outputs" ? "output" : column.slice(0, -1)}`}</span>}
        </li>
      ))}
    </ul>
  );
}
