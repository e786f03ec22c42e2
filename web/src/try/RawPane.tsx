// What the client got, character by character, and what it had asked.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { CopyDialog } from "../act/CopyDialog.tsx";
import { CopyButton } from "../message/CodeBlock.tsx";
import { Json } from "../message/Json.tsx";
import { formatMany } from "../ui/format.ts";
import type { Exchange } from "./session.ts";

const SHOWN = 60_000; // characters; a longer stream is shown from its end
const NEAR = 60;

export function RawPane({ exchange }: { exchange: Exchange | null }) {
  return (
    <section class="raw" aria-label="What the client got">
      <header class="raw-head">
        <h2>What the client got</h2>
        {exchange && exchange.status > 0 && (
          <span class={exchange.status < 400 ? "status" : "status status-bad"}>{exchange.status}</span>
        )}
        {exchange && <CopyButton text={exchange.raw} what="the raw stream" />}
      </header>
      {exchange ? <Stream exchange={exchange} /> : <p class="raw-none">The raw stream appears here, as it comes.</p>}
      {exchange && <Request exchange={exchange} />}
    </section>
  );
}

function Stream({ exchange }: { exchange: Exchange }) {
  const place = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const { raw } = exchange;
  const noted = () => {
    const box = place.current;
    if (box) atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  };
  useLayoutEffect(() => {
    const box = place.current;
    if (box && atEnd.current) box.scrollTop = box.scrollHeight;
  }, [raw]);
  const left = raw.length - SHOWN;
  return (
    <>
      {/* biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark */}
      <pre class="raw-text" ref={place} onScroll={noted} tabIndex={0} role="group" aria-label="Raw stream">
        {left > 0 ? `… ${formatMany(left, "character")} before …\n` : ""}
        {left > 0 ? raw.slice(-SHOWN) : raw}
      </pre>
      {/* biome-ignore-end lint/a11y: . */}
    </>
  );
}

function Request({ exchange }: { exchange: Exchange }) {
  const { asked, id } = exchange;
  const [copying, setCopying] = useState(false);
  if (!asked) return null;
  return (
    <details class="raw-request">
      <summary>
        The request <span class="mono">{`POST ${asked.path}`}</span>
      </summary>
      {id && (
        <div class="raw-actions">
          <button type="button" onClick={() => setCopying(true)}>
            Copy as…
          </button>
        </div>
      )}
      <Json text={JSON.stringify(asked.body)} label="The request's body" />
      {copying && <CopyDialog id={id} onClose={() => setCopying(false)} />}
    </details>
  );
}
