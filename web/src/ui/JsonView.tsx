// JSON laid out and coloured; many lines and long strings are shown in part until more is asked for.
import "./json.css";
import { useMemo, useState } from "preact/hooks";
import { formatBytes } from "./format.ts";
import { Highlighted } from "./Highlighted.tsx";
import { firstHit, type Highlight } from "./highlight.ts";
import { type Line, prettyLines, type Span } from "./json.ts";
import { LongText } from "./LongText.tsx";
import { visibleText } from "./visibleText.ts";

const FIRST_LINES = 300;
const LONG_STRING = 600;

interface Props {
  text: string;
  more?: (() => void) | undefined;
  size?: number | undefined;
  /** What is marked. As much is shown as the first mark needs. */
  highlight?: Highlight | undefined;
}

export function JsonView({ text, more, size, highlight }: Props) {
  const lines = useMemo(() => prettyLines(text), [text]);
  const marked = useMemo(() => lineOfHit(lines ?? [], highlight), [lines, highlight]);
  const [asked, setAsked] = useState(FIRST_LINES);
  if (!lines || more) return <LongText text={text} more={more} size={size} highlight={highlight} />;
  const shown = Math.max(asked, marked + 1);
  const rest = lines.length - shown;
  return (
    <>
      <pre class="pretty-json">
        {lines.slice(0, shown).map((line, index) => (
          <JsonLine key={index} line={line} highlight={highlight} />
        ))}
      </pre>
      {rest > 0 && (
        <button type="button" class="more" onClick={() => setAsked(shown * 10)}>
          {`${rest.toLocaleString("en")} further lines`}
        </button>
      )}
    </>
  );
}

/** The first line with a mark; -1 for none. */
function lineOfHit(lines: readonly Line[], highlight: Highlight | undefined): number {
  return lines.findIndex(({ spans }) => spans.some(({ text }) => firstHit(text, highlight) >= 0));
}

function JsonLine({ line, highlight }: { line: Line; highlight?: Highlight | undefined }) {
  return (
    <span class="pretty-line" style={{ paddingLeft: `${line.depth * 14 + 14}px` }}>
      {line.spans.map((span, index) => (
        <JsonSpan key={index} span={span} highlight={highlight} />
      ))}
    </span>
  );
}

function JsonSpan({ span, highlight }: { span: Span; highlight?: Highlight | undefined }) {
  const [all, setAll] = useState(false);
  if (span.text.length <= LONG_STRING) {
    return (
      <span class={`pretty-${span.kind}`}>
        <Highlighted text={visibleText(span.text)} highlight={highlight} />
      </span>
    );
  }
  const beginning = span.text.slice(0, LONG_STRING);
  const hidden = firstHit(beginning, highlight) < 0 && firstHit(span.text, highlight) >= 0;
  if (all || hidden) return <LongText text={span.text} highlight={highlight} />;
  return (
    <>
      <span class={`pretty-${span.kind}`}>
        <Highlighted text={visibleText(beginning)} highlight={highlight} />…
      </span>
      <button type="button" class="more inline" onClick={() => setAll(true)}>
        {formatBytes(span.text.length)}: show all
      </button>
    </>
  );
}
