// JSON laid out and coloured; many lines and long strings are shown in part until more is asked for.
import "./json.css";
import { useMemo, useState } from "preact/hooks";
import { formatBytes } from "./format.ts";
import { type Line, prettyLines, type Span } from "./json.ts";
import { LongText } from "./LongText.tsx";

const FIRST_LINES = 300;
const LONG_STRING = 600;

interface Props {
  text: string;
  more?: (() => void) | undefined;
  size?: number | undefined;
}

export function JsonView({ text, more, size }: Props) {
  const lines = useMemo(() => prettyLines(text), [text]);
  const [shown, setShown] = useState(FIRST_LINES);
  if (!lines || more) return <LongText text={text} more={more} size={size} />;
  const rest = lines.length - shown;
  return (
    <>
      <pre class="pretty-json">
        {lines.slice(0, shown).map((line, index) => (
          <JsonLine key={index} line={line} />
        ))}
      </pre>
      {rest > 0 && (
        <button type="button" class="more" onClick={() => setShown(shown * 10)}>
          {`${rest.toLocaleString("en")} further lines`}
        </button>
      )}
    </>
  );
}

function JsonLine({ line }: { line: Line }) {
  return (
    <span class="pretty-line" style={{ paddingLeft: `${line.depth * 14 + 14}px` }}>
      {line.spans.map((span, index) => (
        <JsonSpan key={index} span={span} />
      ))}
    </span>
  );
}

function JsonSpan({ span }: { span: Span }) {
  const [all, setAll] = useState(false);
  if (span.text.length <= LONG_STRING) return <span class={`pretty-${span.kind}`}>{span.text}</span>;
  if (all) return <LongText text={span.text} />;
  return (
    <>
      <span class={`pretty-${span.kind}`}>{span.text.slice(0, LONG_STRING)}…</span>
      <button type="button" class="more inline" onClick={() => setAll(true)}>
        {formatBytes(span.text.length)}: show all
      </button>
    </>
  );
}
