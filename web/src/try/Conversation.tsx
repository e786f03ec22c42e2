// What was said by both, newest last; it stays at the end while one is there.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ClientProtocol } from "../act/protocols.ts";
import { MessageView } from "../message/MessageView.tsx";
import { formatRoute } from "../router.ts";
import { formatBytes, formatDuration } from "../ui/format.ts";
import type { Exchange } from "./session.ts";

interface Props {
  exchanges: Exchange[];
  model: string;
  way: ClientProtocol;
  /** Models that play packaged answers. */
  packaged: string[];
  /** Says something to the chosen model, or to another one. */
  onPrompt: (text: string, model?: string) => void;
}

const PROMPTS = [
  "How long does it take to fill the surge tank?",
  "Compare Pelton, Francis and Kaplan turbines in a table.",
  "Write a haiku about a penstock, then explain it.",
];
const NEAR = 60; // pixels from the end that count as being there

export function Conversation({ exchanges, ...rest }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const noted = () => {
    const box = place.current;
    if (box) atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  };
  useLayoutEffect(() => {
    const box = place.current;
    if (box && atEnd.current) box.scrollTop = box.scrollHeight;
  }, [exchanges]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keys
    <section class="conversation" ref={place} onScroll={noted} aria-label="Conversation" tabIndex={0}>
      <p class="unseen" role="status">
        {spokenState(exchanges.at(-1))}
      </p>
      {exchanges.length === 0 && <Welcome {...rest} />}
      {exchanges.map((exchange) => (
        <One key={exchange.number} exchange={exchange} />
      ))}
    </section>
  );
}

/** For screen readers: that an answer is coming, and that it is complete; not every word of it. */
function spokenState(exchange: Exchange | undefined): string {
  if (!exchange) return "";
  if (exchange.state === "streaming") return "The answer is coming.";
  return exchange.state === "done" ? "The answer is complete." : "";
}

function Welcome({ model, way, packaged, onPrompt }: Omit<Props, "exchanges">) {
  return (
    <div class="welcome">
      <h1>See a stream</h1>
      <p>
        {"What you say goes to "}
        <code>{model || "the gateway's first model"}</code>
        {`, the way clients of ${way.label} ask (${way.note}).`}
      </p>
      <div class="prompts">
        {PROMPTS.map((prompt) => (
          <button key={prompt} type="button" onClick={() => onPrompt(prompt)}>
            {prompt}
          </button>
        ))}
      </div>
      {packaged.length > 0 && (
        <>
          <p>Or play a packaged answer, which needs no key and no network:</p>
          <div class="packaged">
            {packaged.map((id) => (
              <button key={id} type="button" onClick={() => onPrompt(`Show me ${id}.`, id)}>
                {id.replace("replay/", "")}
              </button>
            ))}
          </div>
        </>
      )}
    </div>
  );
}

function One({ exchange }: { exchange: Exchange }) {
  const { said, images, results, model, way, state, error, events, id, asked } = exchange;
  const live = state === "sending" || state === "streaming";
  return (
    <div class="exchange">
      {results.map((result) => (
        <p key={result.id} class="said">
          <span class="soft">{`${result.name}: `}</span>
          {result.text}
        </p>
      ))}
      {said && (
        <p class="said" dir="auto">
          {said}
        </p>
      )}
      {images.map((url, index) => (
        <img key={`${index} ${url.length}`} class="said-image" src={url} alt={`Attached, ${index + 1}`} />
      ))}
      {state === "failed" && (
        <div class="try-error" role="alert">
          <strong>That did not work.</strong> {error}
        </div>
      )}
      {state === "sending" && <p class="message-none">{`Asking ${model}…`}</p>}
      {(events.length > 0 || state === "streaming") && <MessageView events={events} upto={events.length} live={live} />}
      {state === "stopped" && <p class="message-none">You stopped it.</p>}
      {asked && asked.notes.length > 0 && (
        <p class="exchange-notes">{asked.notes.map(({ message }) => message).join("; ")}</p>
      )}
      <p class="exchange-foot">
        <span>{`${model} · ${way.label}`}</span>
        <Figures exchange={exchange} />
        {id && <a href={formatRoute("turn", id)}>See this turn</a>}
      </p>
    </div>
  );
}

function Figures({ exchange }: { exchange: Exchange }) {
  const { first, took, bytes } = exchange;
  return (
    <>
      {first !== null && <span>{`first byte ${formatDuration(first / 1000)}`}</span>}
      {took !== null && <span>{`in all ${formatDuration(took / 1000)}`}</span>}
      {bytes > 0 && <span>{formatBytes(bytes)}</span>}
    </>
  );
}
