// Tokens, cost, latency and errors over time, by model, client or key. Leans on the journal.
import "./usage.css";
import { useCallback, useEffect, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { askJson, explain } from "../api/client.ts";
import { formatRoute, replaceQuery, route } from "../router.ts";
import { Switch } from "../ui/Switch.tsx";
import { Figures } from "./Figures.tsx";
import { asked, BYS, type By, RANGES, type Range, type Usage } from "./figures.ts";
import { Plots } from "./Plots.tsx";
import { NamesTable, TimesTable } from "./Tables.tsx";

const DAY = RANGES[1];
const TIMES = RANGES.map(({ id, label }) => ({ value: id, label, title: `The last ${label.toLowerCase()}` }));
const NAMES = BYS.map(({ id, label }) => ({ value: id, label, title: `By ${label.toLowerCase()}` }));

export function UsageView() {
  const { query } = route.value;
  const range = RANGES.find(({ id }) => id === query.range) ?? DAY;
  const by = BYS.find(({ id }) => id === query.by)?.id ?? "model";
  const { usage, error, refresh } = useUsage(range, by);
  const choose = (more: { range?: string; by?: string }) => replaceQuery({ range: range.id, by, ...more });
  return (
    <div class="scrolling">
      <div class="usage">
        <header class="usage-head">
          <h1>Usage</h1>
          <Switch label="Time" choices={TIMES} chosen={range.id} onChoose={(id) => choose({ range: id })} />
          <Switch label="Counted by" choices={NAMES} chosen={by} onChoose={(id) => choose({ by: id })} />
          <button type="button" onClick={refresh}>
            Refresh
          </button>
        </header>
        {error && (
          <p class="usage-error" role="alert">
            {error}
          </p>
        )}
        {usage && (usage.total.requests > 0 ? <Counted usage={usage} by={by} /> : <Empty range={range} />)}
        {!usage && !error && <p class="soft">Counting…</p>}
      </div>
    </div>
  );
}

function Counted({ usage, by }: { usage: Usage; by: By }) {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };
  const label = BYS.find(({ id }) => id === by)?.label ?? "";
  return (
    <>
      {usage.partial && <p class="soft">There are more requests than are counted here: the oldest are left out.</p>}
      <Figures total={usage.total} period={usage.period} />
      <Plots usage={usage} hidden={hidden} onToggle={toggle} />
      <NamesTable usage={usage} label={label} />
      <TimesTable usage={usage} />
    </>
  );
}

function Empty({ range }: { range: Range }) {
  const off = about.value?.journal === false;
  return (
    <div class="notice">
      <h2>{off ? "The journal is off" : `Nothing in the last ${range.label.toLowerCase()}`}</h2>
      {off ? (
        <p>
          Requests are counted from the journal. Give it a place in <code>penstock.toml</code>: <code>[journal]</code>{" "}
          <code>path = "…"</code>
        </p>
      ) : (
        <p>
          Every request through the gateway is counted here. <a href={formatRoute("try")}>Try one</a>, point a client at
          this address, or look at a longer time.
        </p>
      )}
    </div>
  );
}

function useUsage(range: Range, by: By) {
  const [usage, setUsage] = useState<Usage | null>(null);
  const [error, setError] = useState("");
  const [asks, setAsks] = useState(0);
  const refresh = useCallback(() => setAsks((count) => count + 1), []);
  useEffect(() => {
    addEventListener("focus", refresh); // figures may have grown while one was elsewhere
    return () => removeEventListener("focus", refresh);
  }, [refresh]);
  useEffect(() => {
    const gone = new AbortController();
    askJson<Usage>(asked(range, by, Date.now() / 1000), { signal: gone.signal })
      .then((found) => {
        setUsage(found);
        setError("");
      })
      .catch((why) => {
        if (!gone.signal.aborted) setError(explain(why));
      });
    return () => gone.abort();
  }, [range, by, asks]);
  return { usage, error, refresh };
}
