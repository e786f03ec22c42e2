// The columns of the list: what each shows, how wide it is, and from which width of the window on it is there.
import type { ComponentChild } from "preact";
import type { Row } from "../api/types.ts";
import { formatRoute } from "../router.ts";
import { formatCost, formatCount, formatDuration, formatRate, formatTime } from "../ui/format.ts";
import { StateSign } from "./StateSign.tsx";

export interface ListColumn {
  id: string;
  title: string;
  hint?: string;
  width: string;
  /** The list is at least this wide. */
  from: number;
  right?: boolean;
  show: (row: Row) => ComponentChild;
}

export const LIST_COLUMNS: ListColumn[] = [
  { id: "time", title: "Time", width: "74px", from: 0, show: (row) => formatTime(row.time) },
  { id: "client", title: "Client", width: "minmax(84px, 1.05fr)", from: 0, show: (row) => row.client || "–" },
  { id: "route", title: "Route", width: "minmax(90px, 1.2fr)", from: 1240, show: (row) => row.route },
  { id: "model", title: "Model", width: "minmax(140px, 1.9fr)", from: 0, show: (row) => <Model row={row} /> },
  { id: "provider", title: "Provider", width: "minmax(84px, 1fr)", from: 900, show: (row) => row.provider || "–" },
  {
    id: "engine",
    title: "Engine",
    hint: "And why it was taken",
    width: "minmax(110px, 2fr)",
    from: 1100,
    show: (row) => <Engine row={row} />,
  },
  { id: "state", title: "State", width: "104px", from: 0, show: (row) => <StateSign row={row} /> },
  {
    id: "ttft",
    title: "First",
    hint: "Time to the first token",
    width: "66px",
    from: 860,
    right: true,
    show: (row) => formatDuration(row.ttft),
  },
  { id: "took", title: "Took", width: "66px", from: 1500, right: true, show: (row) => formatDuration(row.duration) },
  {
    id: "rate",
    title: "Tok/s",
    hint: "Output tokens a second",
    width: "58px",
    from: 1000,
    right: true,
    show: (row) => formatRate(row.rate),
  },
  {
    id: "usage",
    title: "In → out",
    hint: "Tokens of the prompt and of the answer",
    width: "92px",
    from: 860,
    right: true,
    show: (row) => <Usage row={row} />,
  },
  { id: "cost", title: "Cost", width: "68px", from: 820, right: true, show: (row) => formatCost(row.cost) },
  { id: "fault", title: "Fault", width: "minmax(90px, 1.4fr)", from: 1000, show: (row) => <Fault row={row} /> },
];

export function columnsFor(width: number): ListColumn[] {
  return LIST_COLUMNS.filter((column) => width >= column.from);
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
    <span title={row.decisions.join("\n")}>
      {row.engine || "–"} <span class="why">{whyOf(row)}</span>
    </span>
  );
}

function Usage({ row }: { row: Row }) {
  if (row.input === null && row.output === null) return "–";
  const parts = [
    row.cached ? `${formatCount(row.cached)} cached` : "",
    row.reasoning ? `${formatCount(row.reasoning)} reasoning` : "",
  ];
  return (
    <span title={parts.filter(Boolean).join(", ")}>
      {formatCount(row.input)} <span class="faint">→</span> {formatCount(row.output)}
    </span>
  );
}

function Fault({ row }: { row: Row }) {
  if (!row.fault) return null;
  return (
    <span class="fault-words" title={row.message}>
      <b>{row.fault}</b> {row.message}
    </span>
  );
}
