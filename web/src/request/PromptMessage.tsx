// One message of a prompt: its role, its parts, its tokens, where the cache has its points.
import { useState } from "preact/hooks";
import type { BreakdownLine } from "../api/types.ts";
import { linkTarget, mediaAddress, pictureData } from "../message/addresses.ts";
import { CopyButton } from "../message/CodeBlock.tsx";
import { Json } from "../message/Json.tsx";
import { formatBytes } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";
import { TokenCount } from "./PromptView.tsx";
import { type CallLinks, describeCacheHit, partSize } from "./prompt.ts";
import type { CanonicalMessage, Part } from "./types.ts";

const LONG = 1_500; // characters of a text that are shown before it is unfolded
const MOST = 200_000; // and after

interface Props {
  number: number;
  message: CanonicalMessage;
  /** The previous request had no such message. */
  fresh: boolean;
  links: CallLinks;
  line: BreakdownLine | undefined;
  window: number | null;
  /** Tokens of the cache hit, if it ended here. */
  cached: number | null;
  /** Unfolds the messages that are as before. */
  onShowOld: () => void;
}

export function PromptMessage({ number, message, fresh, links, line, window, cached, onShowOld }: Props) {
  const parts = message.parts ?? [];
  const size = parts.reduce((sum, part) => sum + partSize(part), 0);
  return (
    <article
      class={`prompt-message role-${message.role}`}
      id={`message-${number}`}
      aria-label={`Message ${number + 1}`}
    >
      <header class="prompt-head">
        <b>{`${number + 1}. ${message.role}`}</b>
        {message.name && <span>{visibleText(message.name)}</span>}
        {fresh && <span class="badge">new</span>}
        <span class="tree-size">{formatBytes(size)}</span>
        <TokenCount tokens={line?.tokens} window={window} />
      </header>
      {parts.length === 0 && <p class="hint">Nothing is in it.</p>}
      {parts.map((part, index) => (
        <div key={index} class="prompt-part">
          <PartView part={part} links={links} onShowOld={onShowOld} />
          {part.cache && (
            <p class="cache-wish">{`cache point of the client (${part.cache}): it asks for a cache up to here`}</p>
          )}
        </div>
      ))}
      {cached !== null && <p class="cache-point">{describeCacheHit(cached, "this message")}</p>}
    </article>
  );
}

interface PartProps {
  part: Part;
  links: CallLinks;
  onShowOld: () => void;
}

function PartView({ part, links, onShowOld }: PartProps) {
  switch (part.type) {
    case "text":
      return <FoldedText text={part.text ?? ""} />;
    case "reasoning":
      return (
        <div class="prompt-reasoning kind-reasoning">
          <p class="card-label">Reasoning</p>
          {part.text ? <FoldedText text={part.text} /> : <p class="soft">Without text: it is signed or encrypted.</p>}
        </div>
      );
    case "call":
      return <CallPart part={part} links={links} onShowOld={onShowOld} />;
    case "result":
      return <ResultPart part={part} links={links} onShowOld={onShowOld} />;
    case "file":
      return <FilePart part={part} />;
    case "json":
      return <Json text={part.json ?? ""} label="JSON" />;
    default:
      return <Json text={JSON.stringify(part)} label={part.type} />;
  }
}

function FoldedText({ text }: { text: string }) {
  const [open, setOpen] = useState(false);
  const shown = text.length <= LONG ? text : open ? text.slice(0, MOST) : `${text.slice(0, LONG)}…`;
  const words = (
    <pre class="prompt-text" dir="auto">
      {visibleText(shown)}
    </pre>
  );
  if (text.length <= LONG) return words;
  return (
    <>
      {words}
      {open && text.length > MOST && (
        <p class="hint">{`The tab Client request shows the rest: ${formatBytes(text.length - MOST)}.`}</p>
      )}
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Fold" : `Show all of it (${formatBytes(text.length)})`}
      </button>
    </>
  );
}

/** A link to the message with the other half of a call; one that is folded is unfolded first. */
function Jump({ to, words, onShowOld }: { to: number | undefined; words: string; onShowOld: () => void }) {
  if (to === undefined) return null;
  const jump = () => {
    onShowOld();
    requestAnimationFrame(() => document.getElementById(`message-${to}`)?.scrollIntoView({ block: "center" }));
  };
  return (
    <button type="button" class="link" onClick={jump}>
      {`${words} ${to + 1}`}
    </button>
  );
}

function CallPart({ part, links, onShowOld }: PartProps) {
  const { id = "", json = "" } = part;
  const name = visibleText(part.name ?? "");
  const answered = links.results.get(id);
  return (
    <section class="card kind-call" aria-label={`Call of ${name}`}>
      <p class="card-label">
        <b class="mono">{name}</b>
        {answered === undefined ? (
          <span class="badge">no result</span>
        ) : (
          <Jump to={answered} words="result in message" onShowOld={onShowOld} />
        )}
        <CopyButton text={json} what={`arguments of ${name}`} />
      </p>
      {json ? <Json text={json} label={`Arguments of ${name}`} /> : <p class="soft">No arguments.</p>}
    </section>
  );
}

function ResultPart({ part, links, onShowOld }: PartProps) {
  const { call = "", failed = false, content = [] } = part;
  const name = visibleText(links.names.get(call) || part.name || "a tool");
  return (
    <section class={`card kind-result ${failed ? "failed" : ""}`} aria-label={`Result of ${name}`}>
      <p class="card-label">
        <span>{failed ? "failed: " : "result of "}</span>
        <b class="mono">{name}</b>
        <Jump to={links.calls.get(call)} words="call in message" onShowOld={onShowOld} />
      </p>
      {content.map((inner, index) => (
        <PartView key={index} part={inner} links={links} onShowOld={onShowOld} />
      ))}
    </section>
  );
}

/** A picture that carries its data is shown; nothing is fetched from elsewhere. */
function FilePart({ part }: { part: Part }) {
  const { media = "", url = "", name = "" } = part;
  const data = typeof part.data === "string" ? part.data : "";
  const own = pictureData(url) ?? (data ? pictureOf(media, data) : null);
  const target = own || !url ? null : linkTarget(url);
  return (
    <figure class="file kind-file">
      {own && <img src={own} alt={visibleText(name || `Sent by the client, ${media}`)} />}
      <figcaption>
        <span class="mono">{visibleText(media || "file")}</span>
        {name && <span>{visibleText(name)}</span>}
        {data && <span>{formatBytes(Math.floor((data.length * 3) / 4))}</span>}
        {target && (
          <a href={target.href} target="_blank" rel="noopener noreferrer">{`at ${target.shown}: it is not fetched`}</a>
        )}
        {!target && url && !own && <span class="mono">{visibleText(url.slice(0, 200))}</span>}
      </figcaption>
    </figure>
  );
}

function pictureOf(media: string, data: string): string | null {
  const found = mediaAddress(media, data);
  return found?.kind === "image" ? found.src : null;
}
