// A JSON text as a tree: folding, search, copy, sizes. Only the rows that are seen are drawn, so that megabytes are fine.
import "./tree.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CopyButton } from "../message/CodeBlock.tsx";
import { formatBytes } from "../ui/format.ts";
import { LongText } from "../ui/LongText.tsx";
import { type Scroller, useScroller } from "../ui/useScroller.ts";
import { visibleText } from "../ui/visibleText.ts";
import {
  ancestors,
  copyText,
  findPlaces,
  isContainer,
  type Json,
  kindOf,
  openText,
  parseJson,
  sizeOf,
  type TreeRow,
  treeRows,
  valueAt,
} from "./tree.ts";

export interface TreeMark {
  kind: "lost" | "changed" | "carried" | "repaired";
  text: string;
}
export type TreeMarks = ReadonlyMap<string, readonly TreeMark[]>;

interface Props {
  text: string;
  label: string;
  marks?: TreeMarks;
  /** A place to show; it is unfolded, chosen and scrolled to. */
  focus?: string;
}

const ROW = 22;
const SMALL = 20_000; // characters of a body that is shown unfolded
const LONG = 80; // characters of a text that are shown whole below the tree
const NO_MARKS: TreeMarks = new Map();

export function JsonTree({ text, label, marks = NO_MARKS, focus = "" }: Props) {
  const value = useMemo(() => parseJson(text), [text]);
  if (value === undefined || !isContainer(value)) {
    return <div class="tree-plain">{text ? <LongText text={text} /> : <p class="hint">Nothing is here.</p>}</div>;
  }
  return <Tree key={text} value={value} text={text} label={label} marks={marks} focus={focus} />;
}

interface TreeProps {
  value: Json;
  text: string;
  label: string;
  marks: TreeMarks;
  focus: string;
}

function Tree({ value, text, label, marks, focus }: TreeProps) {
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [level, setLevel] = useState(text.length <= SMALL ? Number.POSITIVE_INFINITY : 2);
  const [chosen, setChosen] = useState(focus);
  const rows = useMemo(
    () => treeRows(value, (place, depth) => folds.get(place) ?? depth < level),
    [value, folds, level],
  );
  const scroller = useScroller<HTMLDivElement>(rows.length, ROW);
  const waiting = useRef<string | null>(null);
  const show = (place: string) => {
    setFolds((old) => new Map([...old, ...ancestors(place).map((one) => [one, true] as const)]));
    setChosen(place);
    waiting.current = place;
  };
  useEffect(() => {
    if (focus) show(focus);
  }, [focus]);
  useEffect(() => {
    const at = rows.findIndex((row) => row.place === waiting.current);
    if (at >= 0) scroller.show(at);
    waiting.current = null;
  }, [rows, chosen]);
  const toggle = (row: TreeRow) => setFolds((old) => new Map([...old, [row.place, !row.open]]));
  const foldAll = (depth: number) => {
    setFolds(new Map());
    setLevel(depth);
  };
  const keys = (event: KeyboardEvent) => moveByKey(event, rows, chosen, show, toggle);
  return (
    <div class="tree">
      <TreeBar value={value} text={text} label={label} onFound={show} onFold={foldAll} />
      <Rows {...{ rows, scroller, chosen, marks, label, toggle }} onKey={keys} onChoose={setChosen} />
      <Chosen value={valueAt(value, chosen)} place={chosen} marks={marks.get(chosen) ?? []} />
    </div>
  );
}

function moveByKey(
  event: KeyboardEvent,
  rows: TreeRow[],
  chosen: string,
  show: (place: string) => void,
  toggle: (row: TreeRow) => void,
): void {
  const at = Math.max(
    0,
    rows.findIndex((row) => row.place === chosen),
  );
  const row = rows[at];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const next = step === undefined ? undefined : rows[at + step];
  if (next) show(next.place);
  else if (row && event.key === "ArrowRight" && row.count && !row.open) toggle(row);
  else if (row && event.key === "ArrowLeft") {
    if (row.open) toggle(row);
    else show(ancestors(row.place).at(-1) ?? "");
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

interface BarProps {
  value: Json;
  text: string;
  label: string;
  onFound: (place: string) => void;
  onFold: (depth: number) => void;
}

function TreeBar({ value, text, label, onFound, onFold }: BarProps) {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const found = useMemo(() => findPlaces(value, words), [value, words]);
  const step = (by: number) => {
    const next = found.length ? (at + by + found.length) % found.length : 0;
    setAt(next);
    const place = found[next];
    if (place !== undefined) onFound(place);
  };
  const type = (typed: string) => {
    setWords(typed);
    setAt(0);
    const [first] = findPlaces(value, typed);
    if (first !== undefined) onFound(first);
  };
  return (
    <div class="tree-bar">
      <input
        type="search"
        value={words}
        placeholder="Search"
        aria-label={`Search in ${label}`}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          if (event.key !== "Escape") event.stopPropagation();
        }}
      />
      {words && (
        <>
          <span class="tree-found" role="status">
            {found.length ? `${at + 1} of ${found.length.toLocaleString("en")}` : "no matches"}
          </span>
          <button type="button" onClick={() => step(-1)} disabled={!found.length} aria-label="Previous match">
            ‹
          </button>
          <button type="button" onClick={() => step(1)} disabled={!found.length} aria-label="Next match">
            ›
          </button>
        </>
      )}
      <span class="tree-size">{formatBytes(text.length)}</span>
      <button type="button" onClick={() => onFold(Number.POSITIVE_INFINITY)}>
        Unfold all
      </button>
      <button type="button" onClick={() => onFold(1)}>
        Fold all
      </button>
      <CopyButton text={text} what={label} />
    </div>
  );
}

interface RowsProps {
  rows: TreeRow[];
  scroller: Scroller<HTMLDivElement>;
  chosen: string;
  marks: TreeMarks;
  label: string;
  toggle: (row: TreeRow) => void;
  onChoose: (place: string) => void;
  onKey: (event: KeyboardEvent) => void;
}

function Rows({ rows, scroller, chosen, marks, label, toggle, onChoose, onKey }: RowsProps) {
  const { first, end } = scroller.seen;
  return (
    <div
      ref={scroller.ref}
      class="tree-rows"
      role="tree"
      tabIndex={0}
      aria-label={label}
      onScroll={scroller.onScroll}
      onKeyDown={onKey}
    >
      <div style={{ height: `${rows.length * ROW}px` }} role="presentation">
        <div style={{ transform: `translateY(${first * ROW}px)` }} role="presentation">
          {rows.slice(first, end).map((row) => (
            <Row
              key={row.place}
              row={row}
              chosen={row.place === chosen}
              marks={marksOf(row, marks)}
              onToggle={() => toggle(row)}
              onChoose={() => onChoose(row.place)}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

/** The marks of a row; a folded one has those inside of it. */
function marksOf(row: TreeRow, marks: TreeMarks): readonly TreeMark[] {
  const own = marks.get(row.place);
  if (own || row.open || !row.count || marks.size === 0) return own ?? [];
  const inside = `${row.place}/`;
  return [...marks].flatMap(([place, some]) => (place.startsWith(inside) ? some : []));
}

interface RowProps {
  row: TreeRow;
  chosen: boolean;
  marks: readonly TreeMark[];
  onToggle: () => void;
  onChoose: () => void;
}

function Row({ row, chosen, marks, onToggle, onChoose }: RowProps) {
  const { depth, name, value, count, open } = row;
  const folds = count !== null && count > 0;
  const kind = marks[0]?.kind;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys
    <div
      class={`tree-row${chosen ? " chosen" : ""}${kind ? ` marked mark-${kind}` : ""}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={chosen}
      aria-expanded={folds ? open : undefined}
      data-place={row.place}
      tabIndex={-1}
      style={{ paddingLeft: `${Math.min(depth, 30) * 16 + 4}px` }}
      onClick={onChoose}
      onDblClick={folds ? onToggle : undefined}
      title={marks.map((mark) => mark.text).join("\n") || undefined}
    >
      <FoldSign folds={folds} open={open} onToggle={onToggle} />
      {name !== null && <span class="pretty-key">{`${visibleText(name)}: `}</span>}
      <span class={`tree-value pretty-${kindOf(value)}`}>{openText(value, open)}</span>
      {kind && <span class="tree-mark">{[...new Set(marks.map((mark) => mark.kind))].join(", ")}</span>}
      {isSized(value, folds) && <span class="tree-size">{formatBytes(sizeOf(value))}</span>}
    </div>
  );
}

function isSized(value: Json, folds: boolean): boolean {
  return folds || (typeof value === "string" && value.length > LONG);
}

function FoldSign({ folds, open, onToggle }: { folds: boolean; open: boolean; onToggle: () => void }) {
  if (!folds) return <span class="tree-fold" />;
  const toggle = (event: MouseEvent) => {
    event.stopPropagation();
    onToggle();
  };
  return (
    <span class="tree-fold folds" aria-hidden="true" onClick={toggle}>
      {open ? "▾" : "▸"}
    </span>
  );
}

/** The chosen value in full, where its row cannot show it. */
function Chosen({ value, place, marks }: { value: Json | undefined; place: string; marks: readonly TreeMark[] }) {
  if (value === undefined || (!place && !marks.length)) return null;
  const long = typeof value === "string" && (value.length > LONG || value.includes("\n"));
  return (
    <section class="tree-chosen" aria-label="Chosen value">
      <p class="tree-chosen-head">
        <code class="cut">{place}</code>
        <span class="tree-size">{formatBytes(sizeOf(value))}</span>
        <CopyButton text={copyText(value)} what={`value of ${place}`} />
      </p>
      {marks.map((mark) => (
        <p key={mark.text} class={`tree-note mark-${mark.kind}`}>
          <b>{mark.kind}</b> {mark.text}
        </p>
      ))}
      {long && <LongText text={value as string} />}
    </section>
  );
}
