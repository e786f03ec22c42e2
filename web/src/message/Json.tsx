// JSON in a message: laid out and coloured, long ones in part until more is asked for.
import { useMemo, useState } from "preact/hooks";
import { type Line, prettyLines } from "../ui/json.ts";
import { memo } from "../ui/memo.ts";
import { visibleText } from "../ui/visibleText.ts";
import { count } from "./outcomes.ts";

const FIRST_LINES = 200; // lines
const MORE = 2000;
const LONGEST = 1024 * 1024;
const WIDEST = 4000; // characters of one word; the rest of it is counted

interface Props {
  text: string;
  /** What it is, for those who do not see it. */
  label: string;
}

export const Json = memo(function Json({ text, label }: Props) {
  const [most, setMost] = useState(FIRST_LINES);
  const lines = useMemo(() => (text.length > LONGEST ? null : prettyLines(text)), [text]);
  const plain = most * 60;
  const left = lines ? lines.length - most : text.length - plain;
  return (
    <div class="json">
      {/* biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark */}
      <pre tabIndex={0} role="group" aria-label={label}>
        {lines ? drawLines(lines, most) : visibleText(text.slice(0, plain))}
      </pre>
      {/* biome-ignore-end lint/a11y: . */}
      {left > 0 && (
        <button type="button" onClick={() => setMost(most + MORE)}>
          {`Show more: ${count(left)} ${lines ? "lines" : "characters"} are left`}
        </button>
      )}
    </div>
  );
});

const SHORT = 64; // characters that are worth one line, not five

function drawLines(lines: Line[], most: number) {
  const spans = lines.flatMap((line) => line.spans);
  const length = spans.reduce((sum, { text }) => sum + text.length + 1, 0);
  if (length > SHORT) return lines.slice(0, most).map(drawLine);
  return lines.map(({ spans: words }, number) => [drawLine({ depth: 0, spans: words }, number).slice(0, -1), " "]);
}

function drawLine({ depth, spans }: Line, number: number) {
  const words = spans.map(({ kind, text }, place) => {
    const left = text.length - WIDEST;
    const said = visibleText(left > 0 ? `${text.slice(0, WIDEST)}… (${count(left)} more)` : text);
    return kind === "mark" ? (
      said
    ) : (
      <span key={`${number} ${place}`} class={`json-${kind}`}>
        {said}
      </span>
    );
  });
  return ["  ".repeat(Math.min(depth, 40)), words, "\n"];
}
