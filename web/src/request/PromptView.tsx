// The conversation of a request as messages: roles, tools as forms, calls linked to results, pictures, tokens, cache.
import { useEffect, useMemo, useState } from "preact/hooks";
import { explain } from "../api/client.ts";
import type { Breakdown, BreakdownLine, Row } from "../api/types.ts";
import { formatRoute } from "../router.ts";
import type { LoadBreakdown } from "../turn/BreakdownPane.tsx";
import { describeTotal, formatShare, lineName, sumKinds } from "../turn/breakdown.ts";
import { formatMany } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";
import { PromptMessage } from "./PromptMessage.tsx";
import {
  cacheEnd,
  describeCache,
  describeCacheHit,
  IN_TOOLS,
  linkCalls,
  messageTokens,
  otherLines,
  parametersOf,
} from "./prompt.ts";
import type { Canonical, CanonicalTool, Previous, RequestView } from "./types.ts";

interface Props {
  view: RequestView;
  row: Row | null;
  /** Whether the turn is over: then the provider has counted, if it counts. */
  done: boolean;
  breakdown?: LoadBreakdown | undefined;
}

const FIRST_MESSAGES = 200;

export function PromptView({ view, row, done, breakdown }: Props) {
  const { canonical, canonical_error, previous, window } = view;
  const { counted, error } = useBreakdown(breakdown, `${row?.id ?? ""} ${done}`);
  const cached = row?.cached ?? null;
  const hitEnd = useMemo(() => canonical && cacheEnd(counted, cached, canonical), [counted, cached, canonical]);
  if (!canonical) return <p class="bare-why">{`The conversation cannot be shown: ${canonical_error}.`}</p>;
  return (
    <div class="prompt">
      <Totals counted={counted} error={error} window={window} row={row} />
      <Tools tools={canonical.tools ?? []} {...{ counted, window }} cached={hitEnd === IN_TOOLS ? cached : null} />
      <Messages {...{ canonical, previous, counted, window, cached, hitEnd }} />
      {counted && <Others lines={otherLines(counted)} window={window} />}
    </div>
  );
}

function useBreakdown(load: LoadBreakdown | undefined, turn: string): { counted: Breakdown | null; error: string } {
  const [found, setFound] = useState<{ counted: Breakdown | null; error: string }>({ counted: null, error: "" });
  useEffect(() => {
    let gone = false;
    load?.().then(
      (counted) => gone || setFound({ counted: counted.lost ? null : counted, error: counted.lost }),
      (why) => gone || setFound({ counted: null, error: explain(why) }),
    );
    return () => {
      gone = true;
    };
  }, [turn]);
  return found;
}

/** The kinds of parts, and their sum. */
function Sums({ counted }: { counted: Breakdown }) {
  const rows = [...sumKinds(counted.lines), { kind: "total", label: "Total", tokens: counted.tokens, share: 1 }];
  return (
    <dl class="prompt-sums">
      {rows.map(({ kind, label, tokens, share }) => (
        <div key={kind} class={`sum-${kind}`}>
          <dt>{label}</dt>
          <dd>{`${tokens.toLocaleString("en")} (${formatShare(share)})`}</dd>
        </div>
      ))}
    </dl>
  );
}

const ABOUT: Record<string, string> = {
  images: "Of all messages; not in the counts of the messages.",
  framing: "Markers between messages.",
  hidden: "Such as its prompt for tools, or a response format.",
};

/** Parts that belong to no one message. */
function Others({ lines, window }: { lines: BreakdownLine[]; window: number | null }) {
  if (!lines.length) return null;
  return (
    <section class="prompt-others" aria-label="Beside the messages">
      {lines.map((line) => (
        <p key={line.what} class={`prompt-other kind-${line.kind}`}>
          <b>{lineName(line)}</b>
          <span class="soft">{ABOUT[line.kind] ?? ""}</span>
          <TokenCount tokens={line.tokens} window={window} />
        </p>
      ))}
    </section>
  );
}

interface TotalsProps {
  counted: Breakdown | null;
  error: string;
  window: number | null;
  row: Row | null;
}

function Totals({ counted, error, window, row }: TotalsProps) {
  if (!counted) return error ? <p class="hint">{`Tokens are not known: ${error}.`}</p> : <p class="hint">Counting…</p>;
  const share = window ? counted.tokens / window : null;
  return (
    <section class="prompt-totals" aria-label="Tokens of the prompt">
      <p>
        <b>{counted.tokens.toLocaleString("en")}</b>
        {` input ${counted.tokens === 1 ? "token" : "tokens"}`}
        {share !== null && `: ${formatShare(share)} of the model's window of ${window?.toLocaleString("en")}`}
        {window === null && "; the model's window is not known"}
        {`. ${row ? describeCache(row.cached, row.state === "open" || row.state === "streaming") : ""}`}
      </p>
      <p class="soft">{describeTotal(counted).join(" ")}</p>
      {share !== null && (
        <div class="window-bar" aria-hidden="true">
          <span style={{ width: `${Math.min(100, share * 100)}%` }} />
        </div>
      )}
      <Sums counted={counted} />
    </section>
  );
}

function Tools({
  tools,
  counted,
  window,
  cached,
}: {
  tools: CanonicalTool[];
  counted: Breakdown | null;
  window: number | null;
  /** Tokens of the cache hit, if it ended here. */
  cached: number | null;
}) {
  const [open, setOpen] = useState(false);
  const tokens = counted?.lines.find((line) => line.kind === "tools")?.tokens;
  if (!tools.length && tokens === undefined) return null;
  return (
    <section class="prompt-tools" aria-label="Tools">
      <button type="button" class="prompt-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden="true">{open ? "▾" : "▸"}</span>
        <b>{formatMany(tools.length, "tool")}</b>
        <span class="cut soft">{visibleText(tools.map(({ name }) => name).join(", "))}</span>
        <TokenCount tokens={tokens} window={window} />
      </button>
      {open && tools.map((tool) => <ToolForm key={tool.name} tool={tool} />)}
      {cached !== null && <p class="cache-point">{describeCacheHit(cached, "the tools")}</p>}
    </section>
  );
}

export function TokenCount({ tokens, window }: { tokens: number | undefined; window: number | null }) {
  if (tokens === undefined) return null;
  const share = window ? `, ${formatShare(tokens / window)} of the window` : "";
  return <span class="token-count">{`${formatMany(tokens, "token")}${share}`}</span>;
}

function ToolForm({ tool }: { tool: CanonicalTool }) {
  const parameters = useMemo(() => parametersOf(tool.schema), [tool]);
  return (
    <article class="tool-form" aria-label={`Tool ${visibleText(tool.name)}`}>
      <h3 class="mono">{visibleText(tool.name)}</h3>
      {tool.kind && tool.kind !== "function" && <span class="badge">{tool.kind}</span>}
      {tool.cache && <span class="badge">{`cache point of the client (${tool.cache})`}</span>}
      {tool.description && <p class="tool-words">{visibleText(tool.description)}</p>}
      {parameters.length > 0 ? (
        <dl class="tool-fields">
          {parameters.map(({ name, type, required, description, depth }, index) => (
            <div key={index} style={{ paddingLeft: `${depth * 16}px` }}>
              <dt>
                <code>{visibleText(name)}</code>
                <span class="soft">{` ${visibleText(type)}`}</span>
                {required && <span class="badge">required</span>}
              </dt>
              {description && <dd class="soft">{visibleText(description)}</dd>}
            </div>
          ))}
        </dl>
      ) : (
        <p class="soft">No parameters.</p>
      )}
    </article>
  );
}

interface MessagesProps {
  canonical: Canonical;
  previous: Previous | null;
  counted: Breakdown | null;
  window: number | null;
  cached: number | null;
  /** The message in which the cache hit ended. */
  hitEnd: number | null;
}

function Messages({ canonical, previous, counted, window, cached, hitEnd }: MessagesProps) {
  const messages = canonical.messages ?? [];
  const same = previous?.messages ?? 0;
  const [old, setOld] = useState(same >= messages.length); // a request that was sent again is shown whole
  const [most, setMost] = useState(FIRST_MESSAGES);
  const links = useMemo(() => linkCalls(canonical), [canonical]);
  const tokens = useMemo(() => messageTokens(counted), [counted]);
  const start = old ? 0 : same;
  const shown = messages.slice(start, start + most);
  return (
    <section class="prompt-messages" aria-label="Messages">
      {previous && <Since previous={previous} shown={old} onShow={() => setOld(!old)} />}
      {shown.map((message, index) => (
        <PromptMessage
          key={start + index}
          number={start + index}
          message={message}
          fresh={previous !== null && start + index >= same}
          links={links}
          line={tokens.get(start + index)}
          window={window}
          cached={hitEnd === start + index ? cached : null}
          onShowOld={() => setOld(true)}
        />
      ))}
      {start + most < messages.length && (
        <button type="button" onClick={() => setMost(most * 5)}>
          {`Show more: ${formatMany(messages.length - start - most, "message")} left`}
        </button>
      )}
    </section>
  );
}

const NAMES: Record<string, string> = { choice: "tool choice" };

/** What is as in the previous request of the conversation. */
function Since({ previous, shown, onShow }: { previous: Previous; shown: boolean; onShow: () => void }) {
  const { id, messages, dropped, changed, parts_at } = previous;
  const words = messages === 1 ? "The first message is as before." : `The first ${messages} messages are as before.`;
  return (
    <div class="since" role="note">
      <div>
        <p>
          {messages ? words : "No message is as before."}
          {dropped > 0 && ` ${dropped} of the previous request are not here any more, or were changed.`}
          {changed.length > 0 && ` Also changed: ${changed.map((name) => NAMES[name] ?? name).join(", ")}.`}{" "}
          <a href={formatRoute("turn", id, { view: "request" })}>The previous request</a>
        </p>
        {parts_at && (
          <p>
            {`Message ${parts_at.message + 1} differs from character ${(parts_at.character + 1).toLocaleString("en")} on: `}
            <q>{visibleText(parts_at.before)}</q> became <q>{visibleText(parts_at.now)}</q>. A provider's cache ends
            here at the latest.
          </p>
        )}
      </div>
      {messages > 0 && (
        <button type="button" aria-expanded={shown} onClick={onShow}>
          {shown ? "Fold them" : "Show them"}
        </button>
      )}
    </div>
  );
}
