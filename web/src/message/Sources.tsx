// The sources of an answer, numbered as they are cited in the text.
import { Icon } from "../ui/Icon.tsx";
import { linkTarget } from "./addresses.ts";
import type { Cited } from "./parts.ts";

interface Props {
  sources: Cited[];
  chosen: number | null;
  onChoose: (number: number) => void;
}

const MOST = 200;

export function Sources({ sources, chosen, onChoose }: Props) {
  const numbers = new Map<number, Cited[]>();
  for (const source of sources) numbers.set(source.number, [...(numbers.get(source.number) ?? []), source]);
  const shown = [...numbers].slice(0, MOST);
  return (
    <section class="sources kind-source" aria-label="Sources">
      <h3>Sources</h3>
      <ol>
        {shown.map(([number, cited]) => (
          <Source key={number} number={number} cited={cited} chosen={chosen === number} onChoose={onChoose} />
        ))}
      </ol>
      {numbers.size > MOST && <p>{`and ${numbers.size - MOST} more`}</p>}
    </section>
  );
}

function Source({ number, cited, chosen, onChoose }: Omit<Props, "sources" | "chosen"> & Entry) {
  const [first] = cited;
  const target = linkTarget(first?.url ?? "");
  const title = first?.title || target?.shown || first?.url || "without a name";
  const quotes = [...new Set(cited.map((one) => one.quote).filter((quote) => quote !== ""))].slice(0, 3);
  return (
    <li value={number} data-source={number} class={chosen ? "chosen" : undefined} tabIndex={-1}>
      {target ? (
        <a href={target.href} target="_blank" rel="noopener noreferrer" title={target.href}>
          {title}
        </a>
      ) : (
        <span>{title}</span>
      )}
      {target && title !== target.shown && <span class="md-target">{target.shown}</span>}
      <button
        type="button"
        class="plain"
        onClick={() => onChoose(number)}
        aria-label={`Where source ${number} is cited`}
      >
        <Icon name="up" />
      </button>
      {quotes.map((quote) => (
        <q key={quote}>{quote.length > 400 ? `${quote.slice(0, 400)}…` : quote}</q>
      ))}
    </li>
  );
}

interface Entry {
  number: number;
  cited: Cited[];
  chosen: boolean;
}
