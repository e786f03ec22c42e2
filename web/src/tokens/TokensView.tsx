// Estimates against what providers counted, per model: how far off, within which bounds, corrected by how much.
import { Sheet } from "../ui/Sheet.tsx";
import "./tokens.css";
import { useEffect, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { askJson, explain } from "../api/client.ts";
import { formatRoute, replaceQuery, route } from "../router.ts";
import { formatCount } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";
import { Figure } from "../usage/Figures.tsx";
import { AdviceList } from "./AdviceList.tsx";
import { explainEmpty, type Seen } from "./empty.ts";
import { describeAccuracy, LEARNING_TURNS, type ModelTokens, PROMISE, percent, signed } from "./estimates.ts";
import { MethodShares } from "./MethodShares.tsx";
import { ModelPlots } from "./ModelPlots.tsx";
import { OutliersTable, PointsTable } from "./PointsTable.tsx";

interface Tokens {
  models: ModelTokens[];
  /** Only where there is no model. */
  seen?: Seen;
}

export function TokensView() {
  const { tokens, error } = useTokens();
  const models = tokens?.models;
  const chosen = models?.find(({ model }) => model === route.value.query.model) ?? models?.[0];
  return (
    <div class="scrolling">
      <div class="usage">
        <header class="usage-head">
          <h1>Tokens</h1>
          <p class="soft">What the gateway estimates, beside what the provider counted: a sample of turns.</p>
        </header>
        {error && (
          <p class="usage-error" role="alert">
            {error}
          </p>
        )}
        {!models && !error && <p class="soft">Counting…</p>}
        {tokens && !chosen && <Empty seen={tokens.seen} />}
        {models && chosen && <Models models={models} chosen={chosen} />}
        {chosen && <One key={chosen.model} one={chosen} />}
      </div>
    </div>
  );
}

function useTokens() {
  const [tokens, setTokens] = useState<Tokens | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    askJson<Tokens>("/inspector/tokens", { signal: gone.signal })
      .then(setTokens)
      .catch((why) => {
        if (!gone.signal.aborted) setError(explain(why));
      });
    return () => gone.abort();
  }, []);
  return { tokens, error };
}

function Empty({ seen }: { seen: Seen | undefined }) {
  const { title, text, tries } = explainEmpty(about.value?.journal !== false, seen);
  return (
    <div class="notice">
      <h2>{title}</h2>
      <p>
        {text} {tries && <a href={formatRoute("try")}>Try one</a>}
      </p>
    </div>
  );
}

function Models({ models, chosen }: { models: ModelTokens[]; chosen: ModelTokens }) {
  return (
    <Sheet caption="Estimates by model">
      <thead>
        <tr>
          <th scope="col">Model</th>
          {["Requests", "Median error", "Too high or low", "Within bounds", "Factor"].map((head) => (
            <th key={head} scope="col" class="figure">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {models.map((one) => (
          <tr key={one.model} class={one === chosen ? "chosen" : undefined}>
            <th scope="row">
              <button
                type="button"
                class="plain"
                aria-pressed={one === chosen}
                onClick={() => replaceQuery({ ...route.value.query, model: one.model })}
              >
                {visibleText(one.model)}
              </button>
            </th>
            <td class="figure">{formatCount(one.samples)}</td>
            <td class="figure">{percent(one.median_error, 1)}</td>
            <td class="figure">{signed(one.bias)}</td>
            <td class="figure">{percent(one.coverage)}</td>
            <td class="figure">{one.factor.toFixed(3)}</td>
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}

function One({ one }: { one: ModelTokens }) {
  const learning = one.taught < LEARNING_TURNS ? `of about ${LEARNING_TURNS}` : "learned";
  return (
    <section class="tokens-one" aria-label={visibleText(one.model)}>
      <h2>{visibleText(one.model)}</h2>
      <div class="tokens-words">
        {describeAccuracy(one).map((words) => (
          <p key={words}>{words}</p>
        ))}
      </div>
      <AdviceList one={one} />
      <dl class="figures">
        <Figure name="Requests" value={formatCount(one.samples)} note={`counted as ${one.family}`} />
        <Figure name="Median error" value={percent(one.median_error, 1)} />
        <Figure name="Too high or low" value={signed(one.bias)} note="median of the signed error" />
        <Figure name="Within bounds" value={percent(one.coverage)} note={`promised: ${percent(PROMISE)}`} />
        <Figure name="Correction factor" value={`× ${one.factor.toFixed(3)}`} />
        <Figure name="Turns that taught" value={formatCount(one.taught)} note={learning} />
      </dl>
      <ModelPlots one={one} />
      <MethodShares one={one} />
      <OutliersTable one={one} />
      <PointsTable one={one} />
    </section>
  );
}
