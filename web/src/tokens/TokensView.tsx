// Estimates against what providers counted, per model: how far off, within which bounds, corrected by how much.
import { Sheet } from "../ui/Sheet.tsx";
import "./tokens.css";
import { useEffect, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { askJson, explain } from "../api/client.ts";
import { adjust, formatRoute, route } from "../router.ts";
import { formatCount } from "../ui/format.ts";
import { Figure } from "../usage/Figures.tsx";
import { inWords, type ModelTokens, PROMISE, percent } from "./estimates.ts";
import { ModelPlots } from "./ModelPlots.tsx";
import { PointsTable } from "./PointsTable.tsx";

export function TokensView() {
  const { models, error } = useTokens();
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
        {models && !chosen && <Empty />}
        {models && chosen && <Models models={models} chosen={chosen} />}
        {chosen && <One key={chosen.model} one={chosen} />}
      </div>
    </div>
  );
}

function useTokens() {
  const [models, setModels] = useState<ModelTokens[] | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    askJson<{ models: ModelTokens[] }>("/inspector/tokens", { signal: gone.signal })
      .then((found) => setModels(found.models))
      .catch((why) => {
        if (!gone.signal.aborted) setError(explain(why));
      });
    return () => gone.abort();
  }, []);
  return { models, error };
}

function Empty() {
  const off = about.value?.journal === false;
  return (
    <div class="notice">
      <h2>{off ? "The journal is off" : "Nothing to compare yet"}</h2>
      <p>
        {off
          ? "Estimates are kept in the journal. Give it a place in penstock.toml."
          : "An estimate is compared once a provider has counted the same prompt: after the first turns with a model that tells its usage. "}
        {!off && <a href={formatRoute("try")}>Try one</a>}
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
          {["Requests", "Median error", "Within bounds", "Factor"].map((head) => (
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
                onClick={() => adjust({ model: one.model })}
              >
                {one.model}
              </button>
            </th>
            <td class="figure">{formatCount(one.samples)}</td>
            <td class="figure">{percent(one.median_error, 1)}</td>
            <td class="figure">{percent(one.coverage)}</td>
            <td class="figure">{one.factor.toFixed(3)}</td>
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}

function One({ one }: { one: ModelTokens }) {
  return (
    <section class="tokens-one" aria-label={one.model}>
      <h2>{one.model}</h2>
      <div class="tokens-words">
        {inWords(one).map((words) => (
          <p key={words}>{words}</p>
        ))}
      </div>
      <dl class="figures">
        <Figure name="Requests" value={formatCount(one.samples)} />
        <Figure name="Median error" value={percent(one.median_error, 1)} />
        <Figure name="Within bounds" value={percent(one.coverage)} note={`promised: ${percent(PROMISE)}`} />
        <Figure name="Correction factor" value={`× ${one.factor.toFixed(3)}`} />
      </dl>
      <ModelPlots one={one} />
      <PointsTable one={one} />
    </section>
  );
}
