// Two JSON texts side by side: what was added, removed, changed or moved. Equal parts are folded.
import "./tree.css";
import { useMemo, useState } from "preact/hooks";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { useScroller } from "../ui/useScroller.ts";
import { visibleText } from "../ui/visibleText.ts";
import { countChanges, diffJson, type Pair, type PairRow, pairRows } from "./jsonDiff.ts";
import { copyText, type Json, kindOf, openText, parseJson } from "./tree.ts";

interface Props {
  left: string;
  right: string;
  leftLabel: string;
  rightLabel: string;
}

const ROW = 22;
const SHOWN: Choice<"changes" | "all">[] = [
  { value: "changes", label: "Changes" },
  { value: "all", label: "Everything" },
];

export function DiffTree({ left, right, leftLabel, rightLabel }: Props) {
  const { whole, number } = useMemo(() => ({ whole: diffTexts(left, right), number: ++compared }), [left, right]);
  if (!whole) return <p class="hint tree-plain">One of the two is not JSON: they cannot be compared.</p>;
  return <DiffRows key={number} {...{ whole, leftLabel, rightLabel }} />;
}

let compared = 0; // what is folded and chosen belongs to one comparison

function diffTexts(left: string, right: string): Pair | null {
  const [one, other] = [parseJson(left), parseJson(right)];
  return one === undefined || other === undefined ? null : diffJson(one, other);
}

interface RowsProps {
  whole: Pair;
  leftLabel: string;
  rightLabel: string;
}

function DiffRows({ whole, leftLabel, rightLabel }: RowsProps) {
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [only, setOnly] = useState<"changes" | "all">("changes");
  const [chosen, setChosen] = useState<PairRow | null>(null);
  const rows = useMemo(
    () => pairRows(whole, (key, byDefault) => folds.get(key) ?? byDefault, only === "changes"),
    [whole, folds, only],
  );
  const scroller = useScroller<HTMLElement>(rows.length, ROW);
  const toggle = (row: PairRow) => setFolds((old) => new Map([...old, [row.key, row.equal ? true : !row.open]]));
  const choose = (row: PairRow) => {
    if (row.equal) toggle(row);
    else setChosen(row);
  };
  const { first, end } = scroller.seen;
  return (
    <div class="tree">
      <div class="tree-bar">
        <Counts whole={whole} />
        <Switch label="What is shown" choices={SHOWN} chosen={only} onChoose={setOnly} small />
      </div>
      <div class="diff-head" aria-hidden="true">
        <span>{leftLabel}</span>
        <span>{rightLabel}</span>
      </div>
      <section
        ref={scroller.ref}
        class="tree-rows"
        aria-label={`${leftLabel} compared with ${rightLabel}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={scroller.onScroll}
      >
        <div style={{ height: `${rows.length * ROW}px` }}>
          <div style={{ transform: `translateY(${first * ROW}px)` }}>
            {rows.slice(first, end).map((row) => (
              <DiffRow
                key={row.key}
                row={row}
                chosen={row === chosen}
                onToggle={() => toggle(row)}
                onChoose={() => choose(row)}
              />
            ))}
          </div>
        </div>
      </section>
      {chosen && <BothValues pair={chosen.pair} />}
    </div>
  );
}

function Counts({ whole }: { whole: Pair }) {
  const counts = useMemo(() => countChanges(whole), [whole]);
  if (whole.change === "same") return <p class="diff-counts">Both are the same.</p>;
  return (
    <p class="diff-counts">
      {(["added", "removed", "changed", "moved"] as const).map((name) => (
        <span key={name} class={`diff-${name}`}>{`${counts[name].toLocaleString("en")} ${name}`}</span>
      ))}
    </p>
  );
}

const WORDS: Record<string, string> = { added: "+", removed: "−", changed: "≠", moved: "⇄" };

interface RowProps {
  row: PairRow;
  chosen: boolean;
  onToggle: () => void;
  onChoose: () => void;
}

function DiffRow({ row, chosen, onToggle, onChoose }: RowProps) {
  const { pair, depth, equal } = row;
  const pad = { paddingLeft: `${Math.min(depth, 20) * 14 + 4}px` };
  if (equal) {
    return (
      <button type="button" class="diff-row diff-equal" style={pad} onClick={onChoose}>
        {`… ${equal.toLocaleString("en")} equal`}
      </button>
    );
  }
  const folds = pair.children.length > 0;
  return (
    <button
      type="button"
      class={`diff-row diff-${pair.change}${chosen ? " chosen" : ""}`}
      data-change={pair.change}
      aria-label={describe(pair)}
      title={describe(pair)}
      onClick={folds ? onToggle : onChoose}
    >
      <Side row={row} value={pair.left} />
      <span class="diff-sign" aria-hidden="true">
        {WORDS[pair.change] ?? ""}
      </span>
      <Side row={row} value={pair.right} />
    </button>
  );
}

function Side({ row: { pair, depth, open }, value }: { row: PairRow; value: Json | undefined }) {
  if (value === undefined) return <span class="diff-side" />;
  const sign = open ? "▾" : "▸";
  return (
    <span class="diff-side" style={{ paddingLeft: `${Math.min(depth, 20) * 14 + 4}px` }}>
      <span class="tree-fold">{pair.children.length > 0 ? sign : ""}</span>
      {pair.name !== null && <span class="pretty-key">{`${visibleText(pair.name)}: `}</span>}
      <span class={`tree-value pretty-${kindOf(value)}`}>{openText(value, open)}</span>
    </span>
  );
}

function describe({ change, leftPlace, rightPlace, left, other }: Pair): string {
  if (change === "moved") return left === undefined ? `moved here from ${other}` : `moved to ${other}`;
  return `${change} ${left === undefined ? rightPlace : leftPlace}`;
}

function BothValues({ pair }: { pair: Pair }) {
  return (
    <section class="tree-chosen diff-both" aria-label="Chosen values">
      <p class="tree-chosen-head">{describe(pair)}</p>
      {[pair.left, pair.right].map((value, side) => (
        <pre key={side ? "right" : "left"} class="long-text">
          {value === undefined ? "" : copyText(value).slice(0, 20_000)}
        </pre>
      ))}
    </section>
  );
}
