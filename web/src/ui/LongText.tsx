// A text of any length: a part of it at first, all of it when asked, in pieces that the browser lays out as they are seen.
import { useState } from "preact/hooks";
import { formatBytes } from "./format.ts";
import { Highlighted } from "./Highlighted.tsx";
import { firstHit, type Highlight } from "./highlight.ts";

const SHOWN = 20_000;
const PIECE = 20_000;

interface Props {
  text: string;
  /** Asks for the rest, where this text is itself a part. */
  more?: (() => void) | undefined;
  size?: number | undefined;
  /** What is marked. All is shown if the first mark is not at the beginning. */
  highlight?: Highlight | undefined;
}

export function LongText({ text, more, size, highlight }: Props) {
  const [all, setAll] = useState(false);
  const cut = text.length > SHOWN && !all && firstHit(text, highlight) < SHOWN;
  const shown = cut ? [text.slice(0, SHOWN)] : pieces(text);
  return (
    <>
      <pre class="long-text">
        {shown.map((piece, index) => (
          <span key={index} class="piece">
            <Highlighted text={piece} highlight={highlight} />
          </span>
        ))}
      </pre>
      {(cut || more) && (
        <button type="button" class="more" onClick={more ?? (() => setAll(true))}>
          {`Show all of it (${formatBytes(size ?? text.length)})`}
        </button>
      )}
    </>
  );
}

function pieces(text: string): string[] {
  const found: string[] = [];
  for (let start = 0; start < text.length; start += PIECE) found.push(text.slice(start, start + PIECE));
  return found;
}
