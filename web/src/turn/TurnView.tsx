// One turn: what came, what it meant, what went on. Used live, for files, and in the saved page.
import "./side.css";
import "./turn.css";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { MessageView } from "../message/MessageView.tsx";
import { Icon } from "../ui/Icon.tsx";
import { type Tab, Tabs } from "../ui/Tabs.tsx";
import { PHONE, useMedia } from "../ui/useMedia.ts";
import { useStickToEnd } from "../ui/useStickToEnd.ts";
import { About } from "./About.tsx";
import { BreakdownPane, BreakdownView, type LoadBreakdown } from "./BreakdownPane.tsx";
import { Details } from "./Details.tsx";
import { Lanes } from "./Lanes.tsx";
import { Ledger } from "./Ledger.tsx";
import { TurnModel } from "./model.ts";
import { Notes } from "./Notes.tsx";
import { Request } from "./Request.tsx";
import { Transport } from "./Transport.tsx";
import { TurnHead } from "./TurnHead.tsx";
import { usePlay } from "./usePlay.ts";
import { useTurnKeys } from "./useTurnKeys.ts";
import type { Whole } from "./whole.ts";

export interface TurnViewProps {
  trace: Trace;
  /** Asks for the same turn as another consumer gets it; absent: no switch. */
  onConsumer?: (consumer: string) => void;
  /** Fetches the whole text of a frame or an output that was cut; absent: it cannot be had. */
  whole?: Whole;
  /** Asks for the tokens of the request, part by part; absent: only those that the trace has. */
  breakdown?: LoadBreakdown;
  /** Leaves the turn (Escape). */
  onLeave?: () => void;
  /** Stands at the right of the head: buttons of the page around (share, close …). */
  children?: ComponentChildren;
}

export function TurnView({ trace, onConsumer, whole, breakdown, onLeave, children }: TurnViewProps) {
  const model = useMemo(() => new TurnModel(trace), []);
  useLayoutEffect(() => {
    model.trace.value = trace;
  }, [model, trace]);
  usePlay(model);
  useTurnKeys(model, onConsumer, onLeave);
  const phone = useMedia(PHONE);
  return (
    <section class="turn" aria-label="One turn">
      <TurnHead trace={trace} onConsumer={onConsumer}>
        {children}
      </TurnHead>
      {trace.frames.length + trace.events.length > 0 ? (
        <>
          <Said trace={trace} />
          <Lanes model={model} />
          <Transport model={model} />
          {phone ? (
            <Narrow model={model} whole={whole} breakdown={breakdown} />
          ) : (
            <Wide model={model} whole={whole} breakdown={breakdown} />
          )}
        </>
      ) : (
        <Bare model={model} breakdown={breakdown} />
      )}
    </section>
  );
}

interface Parts {
  model: TurnModel;
  whole?: Whole | undefined;
  breakdown?: LoadBreakdown | undefined;
}

function sideTabs({ model, whole, breakdown }: Parts): Tab[] {
  const notes = model.trace.value.marks.length;
  const tabs: Tab[] = [
    { id: "details", label: "Details", content: () => <Details model={model} whole={whole} /> },
    { id: "notes", label: notes ? `Notes (${notes})` : "Notes", content: () => <Notes model={model} /> },
  ];
  const { request, row } = model.trace.value;
  if (row) tabs.push({ id: "about", label: "About", content: () => <About row={row} /> });
  if (request) tabs.push({ id: "request", label: "Request", content: () => <Request text={request} /> });
  const tokens = promptTokens(model.trace.value, breakdown);
  if (tokens) tabs.push({ id: "tokens", label: "Tokens", content: tokens });
  return tabs;
}

/** The tokens of the prompt: from the trace of a saved page, else from the gateway; null if there is neither. */
function promptTokens({ breakdown: saved, row, request, done }: Trace, load?: LoadBreakdown): Tab["content"] | null {
  if (saved) return () => <BreakdownView found={saved} />;
  if (!load || (!row && !request)) return null;
  return () => <BreakdownPane load={load} turn={`${row?.id ?? ""} ${done}`} />;
}

/** What is missing, and what else is worth a word. */
function Said({ trace }: { trace: Trace }) {
  const said = [trace.lost, trace.note].filter(Boolean);
  if (!said.length) return null;
  return (
    <p class="turn-said">
      <Icon name="info" />
      <span>{said.join("; ")}</span>
    </p>
  );
}

/** Nothing has come, or nothing was kept: why, and what is known all the same. */
function Bare({ model, breakdown }: Parts) {
  const { row, lost, done, request } = model.trace.value;
  const tokens = request ? promptTokens(model.trace.value, breakdown) : null;
  return (
    <div class="scrolling">
      <div class="bare">
        <p class="bare-why">{lost || (done ? "Nothing came." : "Nothing has come yet.")}</p>
        {row && <About row={row} />}
        {request && <Request text={request} />}
        {tokens?.()}
      </div>
    </div>
  );
}

function Message({ model }: { model: TurnModel }) {
  return <MessageView events={model.trace.value.events} upto={model.reach.value.events} />;
}

/** The message at the step, with its end in sight: that is where it grows. */
function MessagePane({ model }: { model: TurnModel }) {
  const pane = useRef<HTMLElement>(null);
  const moving = model.place.value !== null || !model.trace.value.done;
  const scrolled = useStickToEnd(pane, model.reach.value.events, moving);
  return (
    <section
      ref={pane}
      class="turn-message"
      aria-label="The message at this step"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={scrolled}
    >
      <Message model={model} />
    </section>
  );
}

function Wide(parts: Parts) {
  const [tab, setTab] = useState("details");
  const { model } = parts;
  return (
    <div class="turn-body">
      <Ledger model={model} />
      <div class={tab === "tokens" ? "turn-side long-tab" : "turn-side"}>
        <MessagePane model={model} />
        <Tabs label="About the turn" tabs={sideTabs(parts)} chosen={tab} onChoose={setTab} />
      </div>
    </div>
  );
}

function Narrow(parts: Parts) {
  const [tab, setTab] = useState("events");
  const { model } = parts;
  const tabs: Tab[] = [
    { id: "frames", label: "Frames", content: () => <Ledger key="frames" model={model} only="frames" />, fills: true },
    { id: "events", label: "Events", content: () => <Ledger key="events" model={model} only="events" />, fills: true },
    {
      id: "outputs",
      label: "Client",
      content: () => <Ledger key="outputs" model={model} only="outputs" />,
      fills: true,
    },
    { id: "message", label: "Message", content: () => <Message model={model} /> },
    ...sideTabs(parts),
  ];
  return <Tabs label="The turn" tabs={tabs} chosen={tab} onChoose={setTab} />;
}
