// Two texts as one, line by line: what was removed, what was added, and of what is the same only what stands near.
import "./diff.css";
import { useMemo, useState } from "preact/hooks";
import { formatMany } from "./format.ts";
import { type Change, diffLines, type LineChange } from "./lineDiff.ts";
import { visibleText } from "./visibleText.ts";

const NEAR = 3; // unchanged lines that are shown around a change
const MOST_LINES = 2000; // shown at first
const LONG = 240; // characters of an unchanged stretch within a line that stay

interface Props {
  before: readonly string[];
  after: readonly string[];
  /** What is compared, for screen readers. */
  label: string;
  /** Said where both are the same. */
  same: string;
}

export function DiffView({ before, after, label, same }: Props) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [most, setMost] = useState(MOST_LINES);
  const blocks = useMemo(() => foldBlocks(lines), [lines]);
  if (lines.every(({ kind }) => kind === "same")) return <p class="hint">{same}</p>;
  const open = (index: number) => setOpened(new Set([...opened, index]));
  return (
    // biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark
    <div class="diff" tabIndex={0} role="group" aria-label={label}>
      {blocks.slice(0, most).map((block, index) =>
        block.folded && !opened.has(index) ? (
          <button key={index} type="button" class="diff-fold" onClick={() => open(index)}>
            {formatMany(block.lines.length, "unchanged line")}
          </button>
        ) : (
          block.lines.map((line, inner) => <DiffLine key={`${index}-${inner}`} line={line} />)
        ),
      )}
      {blocks.length > most && (
        <button type="button" class="diff-fold" onClick={() => setMost(most * 4)}>
          {formatMany(blocks.length - most, "further line")}
        </button>
      )}
    </div>
    // biome-ignore-end lint/a11y: .
  );
}

interface Block {
  folded: boolean;
  lines: LineChange[];
}

/** One block for each line that is shown, and one for each stretch of unchanged lines far from a change. */
export function foldBlocks(lines: readonly LineChange[]): Block[] {
  const near = new Uint8Array(lines.length);
  for (const [index, line] of lines.entries()) {
    if (line.kind !== "same") near.fill(1, Math.max(0, index - NEAR), index + NEAR + 1);
  }
  const blocks: Block[] = [];
  for (const [index, line] of lines.entries()) {
    const last = blocks.at(-1);
    if (near[index]) blocks.push({ folded: false, lines: [line] });
    else if (last?.folded) last.lines.push(line);
    else blocks.push({ folded: true, lines: [line] });
  }
  return blocks;
}

const SIGNS = { same: " ", removed: "−", added: "+", changed: "±" } as const;

function DiffLine({ line }: { line: LineChange }) {
  return (
    <div class={`diff-line ${line.kind}`}>
      <span class="diff-sign" aria-hidden="true">
        {SIGNS[line.kind]}
      </span>
      <span class="diff-text">
        {line.kind !== "same" && <span class="unseen">{`${line.kind}: `}</span>}
        {line.words ? line.words.map((change, index) => <Words key={index} change={change} />) : shortened(line.text)}
      </span>
    </div>
  );
}

function Words({ change }: { change: Change }) {
  const text = change.items.join("");
  if (change.kind === "same") return <>{shortened(text)}</>;
  return change.kind === "added" ? <ins>{shortened(text, 20_000)}</ins> : <del>{shortened(text, 20_000)}</del>;
}

/** The beginning and the end of a long text. */
function shortened(text: string, most = LONG): string {
  if (text.length <= most) return visibleText(text);
  const half = Math.floor(most / 2);
  const left = formatMany(text.length - 2 * half, "character");
  return visibleText(`${text.slice(0, half)} … ${left} … ${text.slice(-half)}`);
}
