// The columns of the list: what each shows, how wide it is, what it is sorted by, and from which width on it is there.
import type { ComponentChild } from "preact";
import type { Row } from "../api/types.ts";
import { formatRoute } from "../router.ts";
import { formatBytes, formatCost, formatCount, formatDuration, formatRate, formatTime } from "../ui/format.ts";
import { Elapsed } from "./Elapsed.tsx";
import { isRunning } from "./listing.ts";
import { previewOf } from "./previews.ts";
import { StateSign } from "./StateSign.tsx";

export interface ListColumn {
  id: string;
  title: string;
  /** In the menu of columns, where the title is too short. */
  label?: string;
  hint?: string;
  /** Pixels that it has at least. */
  min: number;
  /** Its share of the room that is left. */
  grow?: number;
  /** Empty while a turn runs: the state beside it may cover this column. */
  hiddenWhileRunning?: boolean;
  /** The list is at least this wide; absent: only where it is chosen. */
  from?: number;
  right?: boolean;
  /** Words of a conversation: they run from right to left where their language does. */
  words?: boolean;
  /** The gateway's name of what the list can be sorted by. */
  sort?: string;
  show: (row: Row) => ComponentChild;
  /** The whole text, for the tooltip. */
  whole?: (row: Row) => string;
}

/** Pixels between two columns. */
const GAP = 12;
const STATE_WIDTH = 104;
/** Pixels of a running turn's state: how it runs, its bytes, and how long ago the last one came. */
const LIVE_WIDTH = 258;

const clientOf = (row: Row) => row.client || row.agent || "–";

export const LIST_COLUMNS: ListColumn[] = [
  {
    id: "time",
    title: "Time",
    min: 74,
    from: 0,
    sort: "time",
    show: (row) => formatTime(row.time),
    whole: (row) => new Date(row.time * 1000).toLocaleString("en-GB"),
  },
  {
    id: "client",
    title: "Client",
    min: 84,
    grow: 0.9,
    from: 0,
    sort: "client",
    show: clientOf,
    whole: (row) => row.agent || clientOf(row),
  },
  {
    id: "model",
    title: "Model",
    min: 140,
    grow: 1.5,
    from: 0,
    sort: "model",
    show: (row) => <Model row={row} />,
  },
  {
    id: "prompt",
    title: "Prompt",
    hint: "How the last message begins, where the turn is kept",
    min: 110,
    grow: 2,
    from: 1264,
    words: true,
    show: (row) => previewOf(row).prompt,
    whole: (row) => previewOf(row).prompt,
  },
  {
    id: "answer",
    title: "Answer",
    hint: "How the answer begins, where the turn is kept",
    min: 110,
    grow: 2,
    from: 1560,
    words: true,
    show: (row) => previewOf(row).answer,
    whole: (row) => previewOf(row).answer,
  },
  {
    id: "provider",
    title: "Provider",
    min: 84,
    grow: 0.8,
    from: 1076,
    sort: "provider",
    show: (row) => row.provider || "–",
    whole: (row) => row.provider,
  },
  { id: "route", title: "Route", min: 90, grow: 1.2, show: (row) => row.route, whole: (row) => row.route },
  { id: "key", title: "Key", min: 70, grow: 0.7, show: (row) => row.key || "–", whole: (row) => row.key },
  {
    id: "engine",
    title: "Engine",
    hint: "And why it was chosen",
    min: 90,
    grow: 1,
    from: 1700,
    show: (row) => <Engine row={row} />,
    whole: (row) => row.decisions.join("\n"),
  },
  { id: "state", title: "State", min: STATE_WIDTH, from: 0, show: (row) => <StateSign row={row} /> },
  {
    id: "fault",
    title: "Fault",
    min: 80,
    grow: 2.2,
    from: 1264,
    hiddenWhileRunning: true,
    show: (row) => <Fault row={row} />,
    whole: (row) => (row.fault ? `${row.fault}: ${row.message}` : ""),
  },
  {
    id: "http",
    title: "HTTP",
    hint: "The status that the client got",
    min: 50,
    from: 900,
    hiddenWhileRunning: true,
    right: true,
    sort: "http",
    show: (row) =>
      isRunning(row) || !row.http ? "–" : <span class={row.http >= 400 ? "bad-status" : ""}>{row.http}</span>,
  },
  {
    id: "ttft",
    title: "TTFT",
    label: "Time to first token",
    hint: "Time to first token",
    min: 66,
    from: 860,
    right: true,
    sort: "ttft",
    show: (row) => formatDuration(row.ttft),
  },
  {
    id: "duration",
    title: "Duration",
    hint: "From the request to the end; of a running turn, so far",
    min: 76,
    from: 780,
    right: true,
    sort: "duration",
    show: (row) => <Elapsed row={row} />,
  },
  {
    id: "rate",
    title: "Tok/s",
    label: "Tokens per second",
    hint: "Output tokens per second; of answers that take half a second or more",
    min: 58,
    from: 1480,
    right: true,
    show: (row) => formatRate(row.rate),
  },
  {
    id: "usage",
    title: "In → out",
    label: "Tokens in → out",
    hint: "Tokens of the prompt and of the answer. Sorted by the prompt.",
    min: 104,
    from: 900,
    right: true,
    sort: "input",
    show: (row) => <Usage row={row} />,
    whole: usageOf,
  },
  {
    id: "cost",
    title: "Cost",
    min: 68,
    from: 980,
    right: true,
    sort: "cost",
    show: (row) => formatCost(row.cost),
  },
  {
    id: "bytes",
    title: "Bytes",
    hint: "Bytes of the answer",
    min: 70,
    right: true,
    sort: "bytes_out",
    show: (row) => (row.bytes ? formatBytes(row.bytes) : "–"),
  },
  {
    id: "notes",
    title: "Notes",
    hint: "Losses, repairs and other findings",
    min: 52,
    from: 1140,
    right: true,
    sort: "notes",
    show: (row) => (row.notes ? <span class="note-count">{row.notes}</span> : ""),
  },
  {
    id: "tools",
    title: "Tools",
    hint: "Tools that the model called",
    min: 80,
    grow: 1,
    show: (row) => row.tools?.split("\n").join(", ") ?? "",
    whole: (row) => row.tools ?? "",
  },
];

/** The columns that are shown: the chosen ones, or those that fit. */
export function columnsFor(width: number, chosen: string[] | null): ListColumn[] {
  const shown = chosen
    ? LIST_COLUMNS.filter(({ id }) => chosen.includes(id))
    : LIST_COLUMNS.filter(({ from }) => from !== undefined && width >= from);
  return shown.map((column) =>
    column.id === "state" ? widenState(column, columnsCoveredByState(column, shown)) : column,
  );
}

/** The columns that a running turn's state covers besides its own. */
export function columnsCoveredByState(column: ListColumn, shown: readonly ListColumn[]): ListColumn[] {
  const rest = shown.slice(shown.findIndex(({ id }) => id === column.id) + 1);
  const end = rest.findIndex(({ hiddenWhileRunning }) => !hiddenWhileRunning);
  return column.id === "state" ? rest.slice(0, end < 0 ? rest.length : end) : [];
}

/** Wide enough for a running turn, with the columns that its state covers. */
function widenState(state: ListColumn, covered: ListColumn[]): ListColumn {
  const coveredWidth = covered.reduce((sum, { min }) => sum + min + GAP, 0);
  const min = Math.max(STATE_WIDTH, LIVE_WIDTH - coveredWidth);
  if (min === STATE_WIDTH) return state;
  return { ...state, min, grow: 1, show: (row) => <StateAndFault row={row} /> };
}

/** Where the fault has no column: the state has room for it, because a running turn needs it. */
function StateAndFault({ row }: { row: Row }) {
  return (
    <>
      <StateSign row={row} />
      {!isRunning(row) && <Fault row={row} />}
    </>
  );
}

/** The width of a column, as a grid's template has it. */
export function trackOf({ id, min, grow }: ListColumn, widths: Record<string, number>): string {
  if (widths[id]) return `${widths[id]}px`;
  return grow ? `minmax(${min}px, ${grow}fr)` : `${min}px`;
}

export function turnAddress(row: Row): string {
  return formatRoute("turn", row.id);
}

export function Model({ row }: { row: Row }) {
  const name = row.model || row.asked || "–";
  const other = row.asked && row.asked !== row.model && !row.asked.endsWith(`/${row.model}`);
  return (
    <a href={turnAddress(row)} tabIndex={-1} title={other ? `${name}, asked for as ${row.asked}` : name}>
      {name}
      {row.held && <span class="held" title="Its frames can be looked at" />}
    </a>
  );
}

/** The decision that chose the engine, or else the last one that was more than "it answers". */
export function whyOf(row: Row): string {
  const decided = row.decisions.filter((line) => !line.startsWith("open:"));
  const found = decided.findLast((line) => line.startsWith("engine:")) ?? decided.at(-1) ?? "";
  const why = found.replace(/^[a-z-]+: /, "");
  return why.startsWith(`${row.asked} `) ? why.slice(row.asked.length + 1) : why; // the name stands in the row
}

function Engine({ row }: { row: Row }) {
  return (
    <>
      {row.engine || "–"} <span class="why">{whyOf(row)}</span>
    </>
  );
}

function usageOf(row: Row): string {
  if (row.input === null && row.output === null) return "";
  const count = (value: number | null) => value?.toLocaleString("en") ?? "–";
  const parts = [
    `${count(row.input)} → ${count(row.output)}`,
    row.cached ? `${count(row.cached)} cached` : "",
    row.reasoning ? `${count(row.reasoning)} reasoning` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function Usage({ row }: { row: Row }) {
  if (row.input === null && row.output === null) return "–";
  return (
    <>
      {formatCount(row.input)} <span class="faint">→</span> {formatCount(row.output)}
    </>
  );
}

function Fault({ row }: { row: Row }) {
  if (!row.fault) return null;
  return (
    <span class="fault-words">
      <b>{row.fault}</b> <bdi>{row.message}</bdi>
    </span>
  );
}
