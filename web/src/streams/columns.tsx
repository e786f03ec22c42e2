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
  width: string;
  /** The list is at least this wide; absent: only where it is chosen. */
  from?: number;
  right?: boolean;
  /** The gateway's name of what the list can be sorted by. */
  sort?: string;
  show: (row: Row) => ComponentChild;
  /** The whole text, for the tooltip. */
  whole?: (row: Row) => string;
}

const clientOf = (row: Row) => row.client || row.agent || "–";

export const LIST_COLUMNS: ListColumn[] = [
  {
    id: "time",
    title: "Time",
    width: "74px",
    from: 0,
    sort: "time",
    show: (row) => formatTime(row.time),
    whole: (row) => new Date(row.time * 1000).toLocaleString("en-GB"),
  },
  {
    id: "client",
    title: "Client",
    width: "minmax(84px, 0.9fr)",
    from: 0,
    sort: "client",
    show: clientOf,
    whole: clientOf,
  },
  {
    id: "model",
    title: "Model",
    width: "minmax(140px, 1.5fr)",
    from: 0,
    sort: "model",
    show: (row) => <Model row={row} />,
  },
  {
    id: "prompt",
    title: "Prompt",
    hint: "How the last message begins, where the turn is kept",
    width: "minmax(110px, 2fr)",
    from: 1120,
    show: (row) => previewOf(row).prompt,
    whole: (row) => previewOf(row).prompt,
  },
  {
    id: "answer",
    title: "Answer",
    hint: "How the answer begins, where the turn is kept",
    width: "minmax(110px, 2fr)",
    from: 1560,
    show: (row) => previewOf(row).answer,
    whole: (row) => previewOf(row).answer,
  },
  {
    id: "provider",
    title: "Provider",
    width: "minmax(84px, 0.8fr)",
    from: 1000,
    sort: "provider",
    show: (row) => row.provider || "–",
    whole: (row) => row.provider,
  },
  { id: "route", title: "Route", width: "minmax(90px, 1.2fr)", show: (row) => row.route, whole: (row) => row.route },
  { id: "key", title: "Key", width: "minmax(70px, 0.7fr)", show: (row) => row.key || "–", whole: (row) => row.key },
  {
    id: "engine",
    title: "Engine",
    hint: "And why it was chosen",
    width: "minmax(90px, 1fr)",
    from: 1700,
    show: (row) => <Engine row={row} />,
    whole: (row) => row.decisions.join("\n"),
  },
  { id: "state", title: "State", width: "104px", from: 0, show: (row) => <StateSign row={row} /> },
  {
    id: "http",
    title: "HTTP",
    hint: "The status that the client got",
    width: "50px",
    from: 900,
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
    width: "66px",
    from: 860,
    right: true,
    sort: "ttft",
    show: (row) => formatDuration(row.ttft),
  },
  {
    id: "duration",
    title: "Duration",
    hint: "From the request to the end; of a running turn, so far",
    width: "76px",
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
    width: "58px",
    from: 1480,
    right: true,
    show: (row) => formatRate(row.rate),
  },
  {
    id: "usage",
    title: "In → out",
    label: "Tokens in → out",
    hint: "Tokens of the prompt and of the answer. Sorted by the prompt.",
    width: "104px",
    from: 860,
    right: true,
    sort: "input",
    show: (row) => <Usage row={row} />,
    whole: usageOf,
  },
  {
    id: "cost",
    title: "Cost",
    width: "68px",
    from: 960,
    right: true,
    sort: "cost",
    show: (row) => formatCost(row.cost),
  },
  {
    id: "bytes",
    title: "Bytes",
    hint: "Bytes of the answer",
    width: "70px",
    right: true,
    sort: "bytes_out",
    show: (row) => (row.bytes ? formatBytes(row.bytes) : "–"),
  },
  {
    id: "notes",
    title: "Notes",
    hint: "Losses, repairs and other findings",
    width: "52px",
    from: 1060,
    right: true,
    sort: "notes",
    show: (row) => (row.notes ? <span class="note-count">{row.notes}</span> : ""),
  },
  {
    id: "tools",
    title: "Tools",
    hint: "Tools that the model called",
    width: "minmax(80px, 1fr)",
    show: (row) => row.tools?.split("\n").join(", ") ?? "",
    whole: (row) => row.tools ?? "",
  },
  {
    id: "fault",
    title: "Fault",
    width: "minmax(80px, 2.2fr)",
    from: 1180,
    show: (row) => <Fault row={row} />,
    whole: (row) => (row.fault ? `${row.fault}: ${row.message}` : ""),
  },
];

/** The columns that are shown: the chosen ones, or those that fit. */
export function columnsFor(width: number, chosen: string[] | null): ListColumn[] {
  if (chosen) return LIST_COLUMNS.filter(({ id }) => chosen.includes(id));
  return LIST_COLUMNS.filter(({ from }) => from !== undefined && width >= from);
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
      <b>{row.fault}</b> {row.message}
    </span>
  );
}
