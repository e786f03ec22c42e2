// Both halves of a turn's request: as the client sent it, canonical, as each try sent it; the prompt, the tries, the losses.
import "../message/card.css";
import "../turn/side.css";
import "../turn/breakdown.css";
import "./request.css";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Row } from "../api/types.ts";
import type { LoadBreakdown } from "../turn/BreakdownPane.tsx";
import { formatSentence } from "../ui/format.ts";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { type Tab, Tabs } from "../ui/Tabs.tsx";
import { Attempts, Headers } from "./Attempts.tsx";
import { describeUnsent, explainUnsent } from "./attemptOutcome.ts";
import { DiffTree } from "./DiffTree.tsx";
import { JsonTree, type TreeMarks } from "./JsonTree.tsx";
import { Losses } from "./Losses.tsx";
import { bodyOf, marksOf } from "./marks.ts";
import { PromptView } from "./PromptView.tsx";
import { pinTry } from "./pinTry.ts";
import type { RequestView } from "./types.ts";
import { canonicalText, type Loaded } from "./useRequest.ts";

interface Props {
  loaded: Loaded;
  row: Row | null;
  /** Whether the turn is over. */
  done: boolean;
  breakdown?: LoadBreakdown | undefined;
  /** The tab that is shown: it is in the address. */
  tab: string;
  onTab: (tab: string) => void;
}

export function RequestPage({ loaded, ...props }: Props) {
  const { view, error, unknown } = loaded;
  if (!view) {
    const why = unknown && !error ? "The request of this turn is not known." : formatSentence(error);
    return (
      <div class="scrolling">
        <p class="bare-why">{why || "Asking for the request …"}</p>
      </div>
    );
  }
  return <RequestTabs view={view} {...props} />;
}

interface TabsProps extends Omit<Props, "loaded"> {
  view: RequestView;
}

function RequestTabs({ view, row, done, breakdown, tab, onTab }: TabsProps) {
  const { attempts, losses } = view;
  const [picked, setNumber] = useState<number | null>(null);
  const [focus, setFocus] = useState({ side: "", place: "" });
  const show = (side: "client" | "upstream", place: string, attempt: number) => {
    setFocus({ side, place });
    setNumber(attempt);
    onTab(side);
  };
  // Decided once: a try that fails meanwhile does not change the tab under the reader.
  const refused = row?.state === "refused" && !attempts.length;
  const [first] = useState(attempts.at(-1)?.attempt.error || refused ? "tries" : "prompt");
  const pinned = useRef<number | null>(null);
  pinned.current = pinTry(pinned.current, tab || first, attempts.length);
  const number = picked ?? pinned.current ?? Math.max(0, attempts.length - 1);
  const marks = useMemo(() => marksOf(losses, number), [losses, number]);
  const own = losses.filter((loss) => loss.attempt === number);
  const focusOf = (side: string) => (focus.side === side ? focus.place : "");
  const shared = { view, row, done, number, marks, onNumber: setNumber };
  const tabs: Tab[] = [
    { id: "prompt", label: "Prompt", content: () => <PromptView {...{ view, row, done, breakdown }} /> },
    {
      id: "client",
      label: "Client request",
      content: () => <ClientTab {...shared} focus={focusOf("client")} />,
      fills: true,
    },
    { id: "canonical", label: "Canonical", content: () => <CanonicalTab {...shared} />, fills: true },
    {
      id: "upstream",
      label: own.length ? `Upstream request (${own.length})` : "Upstream request",
      content: () => <UpstreamTab {...shared} focus={focusOf("upstream")} onShow={show} />,
      fills: true,
    },
    {
      id: "tries",
      label: attempts.length > 1 ? `Tries (${attempts.length})` : "Tries",
      content: () => <Attempts view={view} row={row} done={done} onShow={(which) => show("upstream", "", which)} />,
    },
  ];
  return <Tabs label="Both halves of the request" tabs={tabs} chosen={tab || first} onChoose={onTab} />;
}

interface PaneProps {
  view: RequestView;
  row: Row | null;
  done: boolean;
  number: number;
  marks: { client: TreeMarks; upstream: TreeMarks };
  onNumber: (number: number) => void;
  focus?: string;
}

function ClientTab({ view, marks, focus = "" }: PaneProps) {
  const { client } = view;
  if (!client) return <p class="hint tree-plain">Not known.</p>;
  return (
    <div class="request-pane">
      <p class="request-way">From the client to the gateway</p>
      <p class="mono request-line">{`${client.method} ${client.path}`}</p>
      <Headers label="Request headers" headers={client.headers} />
      {client.cut && <p class="bare-why">Only the beginning of the body was kept.</p>}
      <JsonTree text={client.body} label="the client's request" marks={marks.client} focus={focus} />
    </div>
  );
}

const PLAIN = "none";

function CompareSwitch({
  choices,
  chosen,
  onChoose,
}: {
  choices: Choice<string>[];
  chosen: string;
  onChoose: (value: string) => void;
}) {
  const all = [{ value: PLAIN, label: "nothing" }, ...choices];
  return <Switch label="Compare with" lead="Compare with" choices={all} chosen={chosen} onChoose={onChoose} small />;
}

function CanonicalTab({ view, number }: PaneProps) {
  const [beside, setBeside] = useState(PLAIN);
  const { canonical, canonical_error, client } = view;
  const text = useMemo(() => canonicalText(view), [view]);
  if (!canonical) return <p class="hint tree-plain">{`There is no canonical form: ${canonical_error}.`}</p>;
  const upstream = bodyOf(view, number);
  const choices = [
    ...(client ? [{ value: "client", label: "client request" }] : []),
    ...(upstream ? [{ value: "upstream", label: "upstream request" }] : []),
  ];
  return (
    <div class="request-pane">
      <CompareSwitch choices={choices} chosen={beside} onChoose={setBeside} />
      {beside === "client" && (
        <DiffTree left={client?.body ?? ""} right={text} leftLabel="Client request" rightLabel="Canonical" />
      )}
      {beside === "upstream" && (
        <DiffTree left={text} right={upstream} leftLabel="Canonical" rightLabel="Upstream request" />
      )}
      {beside === PLAIN && <JsonTree text={text} label="the canonical request" />}
    </div>
  );
}

interface UpstreamProps extends PaneProps {
  onShow: (side: "client" | "upstream", place: string, attempt: number) => void;
}

function UpstreamTab(props: UpstreamProps) {
  const { view, row, done, number, onNumber, onShow } = props;
  const attempt = view.attempts[number]?.attempt;
  if (!attempt) return <p class="hint tree-plain">{describeUnsent(done, row)}</p>;
  const losses = view.losses.filter((loss) => loss.attempt === number);
  return (
    <div class="request-pane">
      {view.attempts.length > 1 && (
        <Switch
          label="Try"
          lead="Try"
          choices={view.attempts.map((one, index) => ({
            value: String(index),
            label: `${index + 1}. ${one.attempt.provider}`,
          }))}
          chosen={String(number)}
          onChoose={(value) => onNumber(Number(value))}
          small
        />
      )}
      <p class="request-way">{`From the gateway to the provider ${attempt.provider}`}</p>
      <p class="mono request-line">{attempt.sent ? `${attempt.method} ${attempt.url}` : explainUnsent(attempt)}</p>
      <Headers label="Request headers" headers={attempt.headers ?? {}} />
      {losses.length > 0 ? (
        <Losses losses={losses} onShow={onShow} />
      ) : (
        <p class="hint">Nothing of the request was lost or repaired.</p>
      )}
      {attempt.body_cut && <p class="bare-why">Only the beginning of the body was kept.</p>}
      {attempt.sent && <UpstreamBody {...props} />}
    </div>
  );
}

function UpstreamBody({ view, number, marks, focus = "" }: PaneProps) {
  const [beside, setBeside] = useState(PLAIN);
  const canonical = useMemo(() => canonicalText(view), [view]);
  const body = bodyOf(view, number);
  const choices = [
    ...(view.client ? [{ value: "client", label: "client request" }] : []),
    ...(canonical ? [{ value: "canonical", label: "canonical" }] : []),
  ];
  const [left, leftLabel] =
    beside === "canonical" ? [canonical, "Canonical"] : [view.client?.body ?? "", "Client request"];
  return (
    <>
      <CompareSwitch choices={choices} chosen={beside} onChoose={setBeside} />
      {beside === PLAIN ? (
        <JsonTree text={body} label="the upstream request" marks={marks.upstream} focus={focus} />
      ) : (
        <DiffTree left={left} right={body} leftLabel={leftLabel} rightLabel="Upstream request" />
      )}
    </>
  );
}
