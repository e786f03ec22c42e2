// The message as the person saw it after the first `upto` events. Leans on fold.ts for what it is, on its neighbours
// for how each part looks.
import "./card.css";
import "./markdown.css";
import "./message.css";
import { useCallback, useRef, useState } from "preact/hooks";
import type { Event } from "../api/types.ts";
import { visibleText } from "../ui/visibleText.ts";
import { CallCard } from "./CallCard.tsx";
import { markedText } from "./citing.ts";
import { Ending } from "./Ending.tsx";
import { FileBox } from "./FileBox.tsx";
import { Fold } from "./fold.ts";
import { byChoice, type Group } from "./groups.ts";
import { Json } from "./Json.tsx";
import { Markdown } from "./Markdown.tsx";
import type { Party } from "./outcomes.ts";
import type { Cited, Message } from "./parts.ts";
import { Sources } from "./Sources.tsx";
import { Thinking } from "./Thinking.tsx";

interface Props {
  events: Event[];
  /** How many of the events are shown: the first `upto`. */
  upto: number;
  /** Whether more is on its way; otherwise an open turn is one that is being stepped through. */
  live?: boolean;
  /** Who made the error that ended the turn; "" where that is not known. */
  faultBy?: Party | undefined;
}

export function MessageView({ events, upto, live = false, faultBy = "" }: Props) {
  const fold = useRef<Fold>(new Fold());
  const messages = fold.current.advance(events, upto);
  if (messages.length === 0) {
    return <p class="message-none">{live ? "Nothing has come yet." : "Nothing had come by then."}</p>;
  }
  return (
    <div class="messages">
      {messages.map((message, number) => (
        <OneMessage key={number} {...{ message, upto, faultBy }} live={live && number === messages.length - 1} />
      ))}
    </div>
  );
}

interface OneProps {
  message: Message;
  upto: number;
  live: boolean;
  faultBy: Party;
}

/** `upto` says that the message may have grown: the fold goes on with the same object. */
function OneMessage({ message, live, faultBy }: OneProps) {
  const place = useRef<HTMLElement>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const toSource = useCallback((number: number) => {
    setChosen(number);
    show(place.current, `[data-source="${number}"]`);
  }, []);
  const toText = useCallback((number: number) => {
    setChosen(number);
    show(place.current, `[data-cite="${number}"]`);
  }, []);
  const choices = byChoice(message.parts);
  return (
    <article class="message" ref={place} aria-label="Message">
      <h2 class="unseen">Message</h2>
      {message.model && <p class="message-model mono">{visibleText(message.model)}</p>}
      {choices.map(({ number, groups }) => (
        <div key={number} class="choice">
          {choices.length > 1 && <h3 class="choice-name">{`Choice ${number + 1}`}</h3>}
          {groups.map((group) => (
            <Piece key={keyOf(group)} group={group} sources={message.sources} onCite={toSource} />
          ))}
        </div>
      ))}
      {message.sources.length > 0 && <Sources sources={message.sources} chosen={chosen} onChoose={toText} />}
      <Ending {...{ message, live, faultBy }} />
    </article>
  );
}

function show(place: HTMLElement | null, selector: string): void {
  const found = place?.querySelector<HTMLElement>(selector);
  found?.scrollIntoView({ block: "nearest" });
  found?.focus({ preventScroll: true });
}

function keyOf(group: Group): string {
  if (group.kind === "texts") return `texts ${group.parts[0]?.index}`;
  return `${group.kind} ${group.index} ${"name" in group ? group.name : ""}`;
}

function Piece({ group, sources, onCite }: { group: Group; sources: Cited[]; onCite: (number: number) => void }) {
  switch (group.kind) {
    case "texts": {
      const { text, marked } = markedText(group.parts, sources);
      return <Markdown text={text} marked={marked} open={group.parts.at(-1)?.open ?? false} onCite={onCite} />;
    }
    case "refusal":
      return (
        <section class="refusal kind-refusal" aria-label="Refusal">
          <h3>Declined</h3>
          <Markdown text={group.text} open={group.open} />
        </section>
      );
    case "reasoning":
      return <Thinking text={group.text} form={group.form} open={group.open} />;
    case "call": {
      const { json = null, failed = false, partial = false } = group.result ?? {};
      const { id, name, by, form, state, ask } = group;
      return <CallCard {...{ id, name, by, form, json: group.json, state, ask, result: json, failed, partial }} />;
    }
    case "file":
      return <FileBox media={group.media} url={group.url} data={group.data} open={group.open} cut={group.cut} />;
    case "step":
      return <p class="step">{`Step ${group.name}`}</p>;
    default:
      return <Rest kind={group.kind} name={group.name} text={group.text} />;
  }
}

const RESTS: Record<string, string> = {
  opaque: "Kept for the provider",
  data: "Data of the application",
  result: "Result of an unknown call",
  ask: "Approval asked for an unknown call",
};

/** Parts beside the conversation itself: folded, one line each. */
function Rest({ kind, name, text }: { kind: string; name: string; text: string }) {
  const title = RESTS[kind] ?? kind;
  return (
    <details class="rest kind-other">
      <summary>
        {title} <span class="mono">{name}</span>
      </summary>
      {text !== "" && <Json text={text} label={title} />}
    </details>
  );
}
