// One turn: what came, what it meant, what went on. Used live, for files, and in the saved page.
import "../message/card.css";
import "../request/request.css";
import "./side.css";
import "./turn.css";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import { MessageView } from "../message/MessageView.tsx";
import { Attempts } from "../request/Attempts.tsx";
import type { Loaded } from "../request/useRequest.ts";
import { formatRoute } from "../router.ts";
import { Icon } from "../ui/Icon.tsx";
import { paneShare, Splitter, tracks } from "../ui/Splitter.tsx";
import { type Tab, Tabs } from "../ui/Tabs.tsx";
import { useSubject } from "../ui/title.ts";
import { PHONE, useMedia } from "../ui/useMedia.ts";
import { useStickToEnd } from "../ui/useStickToEnd.ts";
import { About } from "./About.tsx";
import { formatPlace } from "./address.ts";
import { BreakdownPane, BreakdownView, type LoadBreakdown } from "./BreakdownPane.tsx";
import { Details } from "./Details.tsx";
import { FindBar } from "./FindBar.tsx";
import { Lanes } from "./Lanes.tsx";
import { Ledger } from "./Ledger.tsx";
import { TurnModel } from "./model.ts";
import { lossesOf, Notes } from "./Notes.tsx";
import { Request } from "./Request.tsx";
import { Transport } from "./Transport.tsx";
import { TurnHead } from "./TurnHead.tsx";
import { formatTurnName } from "./turnName.ts";
import { useAddress } from "./useAddress.ts";
import { useFind } from "./useFind.ts";
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
  /** The tries and losses of the request; absent: they are not known. */
  request?: Loaded;
  /** Leaves the turn (Escape). */
  onLeave?: () => void;
  /** Stands at the right of the head: buttons of the page around (share, close …). */
  children?: ComponentChildren;
}

export function TurnView({ trace, onConsumer, whole, breakdown, request, onLeave, children }: TurnViewProps) {
  const model = useMemo(() => new TurnModel(trace), []);
  useLayoutEffect(() => {
    model.trace.value = trace;
  }, [model, trace]);
  usePlay(model);
  useTurnKeys(model, onConsumer, onLeave);
  useFind(model);
  useAddress(model);
  useSubject(titleOf(model));
  const phone = useMedia(PHONE);
  return (
    <section class="turn" aria-label="One turn">
      <TurnHead trace={trace} onConsumer={onConsumer}>
        {children}
      </TurnHead>
      {trace.frames.length + trace.events.length > 0 ? (
        <>
          <Said trace={trace} linked={request !== undefined} />
          <Progress trace={trace} />
          <Lanes model={model} />
          <Transport model={model} />
          <FindBar model={model} />
          {phone ? (
            <Narrow model={model} whole={whole} breakdown={breakdown} request={request} />
          ) : (
            <Wide model={model} whole={whole} breakdown={breakdown} request={request} />
          )}
        </>
      ) : (
        <Bare model={model} breakdown={breakdown} request={request} />
      )}
    </section>
  );
}

/** What the browser's tab says: the turn, and what is chosen in it. */
function titleOf(model: TurnModel): string {
  const place = model.playing.value ? null : model.place.value;
  const turn = formatTurnName(model.trace.value);
  return place ? `${formatPlace(place).replace("-", " ")} · ${turn}` : turn;
}

interface Parts {
  model: TurnModel;
  whole?: Whole | undefined;
  breakdown?: LoadBreakdown | undefined;
  request?: Loaded | undefined;
}

function sideTabs({ model, whole, breakdown, request: loaded }: Parts): Tab[] {
  const notes = model.trace.value.marks.length + lossesOf(loaded).length;
  const tabs: Tab[] = [
    { id: "details", label: "Details", content: () => <Details model={model} whole={whole} /> },
    {
      id: "notes",
      label: notes ? `Notes (${notes})` : "Notes",
      content: () => <Notes model={model} request={loaded} />,
    },
  ];
  const { request, row, done } = model.trace.value;
  const view = loaded?.view;
  if (view?.attempts.length)
    tabs.push({ id: "tries", label: "Tries", content: () => <Attempts view={view} row={row} done={done} /> });
  if (row) tabs.push({ id: "about", label: "About", content: () => <About row={row} /> });
  if (request) tabs.push({ id: "request", label: "Request", content: () => <Request text={request} />, fills: true });
  const tokens = promptTokens(model.trace.value, breakdown);
  if (tokens) tabs.push({ id: "tokens", label: "Tokens", content: tokens });
  return tabs;
}

/** No provider has answered, and it is known what each of them said. */
function isUnanswered({ model, request }: Parts): boolean {
  return model.trace.value.frames.length === 0 && (request?.view?.attempts.length ?? 0) > 0;
}

/** The tokens of the prompt: from the trace of a saved page, else from the gateway; null if there is neither. */
function promptTokens({ breakdown: saved, row, request, done }: Trace, load?: LoadBreakdown): Tab["content"] | null {
  if (saved) return () => <BreakdownView found={saved} />;
  if (!load || (!row && !request)) return null;
  return () => <BreakdownPane load={load} turn={`${row?.id ?? ""} ${done}`} />;
}

/** How much of a long turn has come: it is shown from its first page on. */
function Progress({ trace }: { trace: Trace }) {
  const share = trace.progress ?? 1;
  if (share >= 1) return null;
  return (
    <p class="turn-progress">
      <progress max={1} value={share} aria-label="Loading the turn" />
      <span>{`${Math.round(share * 100)}% of the turn is loaded`}</span>
    </p>
  );
}

/** What is missing, and what else is worth a word. */
function Said({ trace, linked }: { trace: Trace; linked: boolean }) {
  const said = [trace.lost, trace.note].filter(Boolean);
  if (!said.length) return null;
  return (
    <p class="turn-said">
      <Icon name="info" />
      <span>{said.join("; ")}</span>
      {linked && <TriesLink trace={trace} />}
    </p>
  );
}

/** Where no frame came: to the tries, with what each provider answered. */
function TriesLink({ trace: { row, frames } }: { trace: Trace }) {
  if (frames.length > 0 || !row?.held || !row.tries) return null;
  return <a href={formatRoute("turn", row.id, { view: "request", tab: "tries" })}>What was sent, and what came back</a>;
}

/** Nothing has come, or nothing was kept: why, and what is known all the same. */
function Bare({ model, breakdown, request: loaded }: Parts) {
  const { row, lost, done, request } = model.trace.value;
  const tokens = request ? promptTokens(model.trace.value, breakdown) : null;
  return (
    <div class="scrolling">
      <div class="bare">
        <p class="bare-why">
          {lost || (done ? "Nothing came." : "Nothing has come yet.")}{" "}
          {loaded && <TriesLink trace={model.trace.value} />}
        </p>
        <h2 class="unseen">About the turn</h2>
        {loaded?.view && <Attempts view={loaded.view} row={row} done={done} />}
        {row && <About row={row} />}
        {request && <Request text={request} />}
        {tokens?.()}
      </div>
    </div>
  );
}

function Message({ model }: { model: TurnModel }) {
  const { events, fault_by } = model.trace.value;
  return <MessageView events={events} upto={model.reach.value.events} faultBy={fault_by} />;
}

/** The message at the step, with its end in sight: that is where it grows. */
function MessagePane({ model }: { model: TurnModel }) {
  const pane = useRef<HTMLElement>(null);
  const { done, progress = 1 } = model.trace.value;
  const moving = model.place.value !== null || (!done && progress >= 1);
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
  const [chosen, setTab] = useState("");
  const tab = chosen || (isUnanswered(parts) ? "tries" : "details");
  const narrow = useMedia("(max-width: 1099px)");
  const { model } = parts;
  // Below a certain width the ledger stands above the rest; the two splits are remembered apart.
  const [body, side] = narrow ? [BODIES.narrow, SIDES.narrow] : [BODIES.wide, SIDES.wide];
  const long = tab === "tokens" ? { ...side, name: `${side.name}-long`, first: 0.25 } : side;
  return (
    <div class="turn-body" style={gridOf(body)}>
      <Ledger model={model} />
      <Splitter {...body} label="Size of the list and of the message" />
      <div class="turn-side" style={gridOf(long)}>
        <MessagePane model={model} />
        <Splitter key={long.name} {...long} label="Size of the message and of the details" />
        <Tabs label="About the turn" tabs={sideTabs(parts)} chosen={tab} onChoose={setTab} />
      </div>
    </div>
  );
}

interface Split {
  name: string;
  across: "row" | "column";
  /** The share of the first pane, until somebody moves the bar. */
  first: number;
}

const BODIES: Record<"wide" | "narrow", Split> = {
  wide: { name: "turn", across: "row", first: 0.7 },
  narrow: { name: "turn-narrow", across: "column", first: 0.6 },
};
const SIDES: Record<"wide" | "narrow", Split> = {
  wide: { name: "turn-side", across: "column", first: 0.54 },
  narrow: { name: "turn-side-narrow", across: "row", first: 0.5 },
};

function gridOf({ name, across, first }: Split): Record<string, string> {
  const share = tracks(paneShare(name, first).value);
  return across === "row" ? { gridTemplateColumns: share } : { gridTemplateRows: share };
}

function Narrow(parts: Parts) {
  const [chosen, setTab] = useState("");
  const tab = chosen || (isUnanswered(parts) ? "tries" : "events");
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
