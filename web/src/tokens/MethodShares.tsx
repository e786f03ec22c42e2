// How the counts were made: which share a provider had counted before, wholly or in part.
import { METHOD_COLOURS } from "./ErrorPlot.tsx";
import { errorOf, METHODS, type Method, type ModelTokens, median, percent } from "./estimates.ts";

const MEANING: Record<Method, string> = {
  actual: "the provider counted this very prompt before",
  hybrid: "the provider counted its beginning before, the rest is estimated",
  estimated: "nothing of it was counted before",
};

/** How far off the counts of one method were. */
function describeError({ points }: ModelTokens, method: Method): string {
  const errors = points.filter((point) => point.method === method).map((point) => Math.abs(errorOf(point)));
  return errors.length > 0 ? `; median error ${percent(median(errors), 1)}` : "";
}

export function MethodShares({ one }: { one: ModelTokens }) {
  const known = METHODS.reduce((sum, method) => sum + one.methods[method], 0);
  return (
    <section class="method-shares" aria-label="How the counts were made">
      <h3 class="tokens-head">How the counts were made</h3>
      {known === 0 ? (
        <p class="soft">The journal has no method for these turns: they are from an older version.</p>
      ) : (
        <>
          <div class="shares-bar" aria-hidden="true">
            {METHODS.map((method) => (
              <span
                key={method}
                class={`swatch-${METHOD_COLOURS[method]}`}
                style={{ width: `${(one.methods[method] / known) * 100}%` }}
              />
            ))}
          </div>
          <dl>
            {METHODS.map((method) => (
              <div key={method}>
                <dt>
                  <span class={`swatch swatch-${METHOD_COLOURS[method]}`} aria-hidden="true" />
                  {method}
                </dt>
                <dd>
                  <b>{percent(one.methods[method] / known)}</b>
                  {` (${one.methods[method].toLocaleString("en")}) ${MEANING[method]}${describeError(one, method)}`}
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </section>
  );
}
