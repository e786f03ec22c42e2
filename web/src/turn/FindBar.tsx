// Find in this turn: text or a regular expression, the type of an event, a part; next, previous, and how many.
import "./find.css";
import { useRef } from "preact/hooks";
import { formatMany } from "../ui/format.ts";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { eventTypes, type FindQuery, isEmpty, NO_QUERY } from "./find.ts";
import type { TurnModel } from "./model.ts";

export function FindBar({ model }: { model: TurnModel }) {
  const input = useRef<HTMLInputElement>(null);
  const query = model.query.value;
  const change = (part: Partial<FindQuery>) => {
    model.query.value = { ...query, ...part };
  };
  useKeys("Find in this turn", [
    { keys: ["/"], label: "Find", run: () => input.current?.select() },
    { keys: ["f"], label: "To the next match", run: () => model.toHit(1) },
    { keys: ["F"], label: "To the match before", run: () => model.toHit(-1) },
  ]);
  return (
    <search class="find" aria-label="Find in this turn">
      <span class="find-field">
        <Icon name="search" />
        <input
          ref={input}
          type="text"
          aria-label="Find in this turn"
          aria-invalid={model.findError.value !== ""}
          placeholder={query.regex ? "Find by a regular expression" : "Find text"}
          spellcheck={false}
          autocomplete="off"
          value={query.text}
          onInput={(event) => change({ text: event.currentTarget.value })}
          onKeyDown={(event) => pressed(model, event)}
        />
        <Toggle label="Match case" sign="Aa" on={query.matchCase} set={(matchCase) => change({ matchCase })} />
        <Toggle label="Regular expression" sign=".*" on={query.regex} set={(regex) => change({ regex })} />
      </span>
      <Types model={model} change={change} />
      <Parts model={model} change={change} />
      {!isEmpty(query) && <Result model={model} />}
    </search>
  );
}

/** Enter goes on, Escape ends the search. */
function pressed(model: TurnModel, event: KeyboardEvent & { currentTarget: HTMLInputElement }): void {
  if (event.key === "Enter") model.toHit(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape" && !isEmpty(model.query.value)) model.query.value = NO_QUERY;
  else if (event.key === "Escape") event.currentTarget.blur();
  else return;
  event.preventDefault();
}

interface ToggleProps {
  label: string;
  sign: string;
  on: boolean;
  set: (on: boolean) => void;
}

function Toggle({ label, sign, on, set }: ToggleProps) {
  return (
    <button
      type="button"
      class="find-toggle"
      aria-label={label}
      title={label}
      aria-pressed={on}
      onClick={() => set(!on)}
    >
      {sign}
    </button>
  );
}

interface SelectProps {
  model: TurnModel;
  change: (part: Partial<FindQuery>) => void;
}

function Types({ model, change }: SelectProps) {
  const types = eventTypes(model.trace.value.events);
  return (
    <select
      aria-label="Type of event"
      value={model.query.value.type}
      onChange={(event) => change({ type: event.currentTarget.value })}
    >
      <option value="">all types</option>
      {types.map((type) => (
        <option key={type} value={type}>
          {type}
        </option>
      ))}
    </select>
  );
}

function Parts({ model, change }: SelectProps) {
  const { lane } = model.query.value;
  return (
    <select
      aria-label="Part"
      value={lane === null ? "" : String(lane)}
      onChange={({ currentTarget: { value } }) => change({ lane: value === "" ? null : Number(value) })}
    >
      <option value="">all parts</option>
      {model.lanes.value.map(({ label }, index) => (
        <option key={index} value={String(index)}>
          {label}
        </option>
      ))}
    </select>
  );
}

function Result({ model }: { model: TurnModel }) {
  const filter = () => {
    model.onlyHits.value = !model.onlyHits.value;
  };
  return (
    <>
      <span class={model.findError.value ? "find-count error" : "find-count"} role="status">
        {describeMatches(model)}
      </span>
      <span class="find-buttons">
        <button type="button" aria-label="Previous match" title="Previous match" onClick={() => model.toHit(-1)}>
          <Icon name="back" />
        </button>
        <button type="button" aria-label="Next match" title="Next match" onClick={() => model.toHit(1)}>
          <Icon name="next" />
        </button>
      </span>
      <button type="button" class="find-only" aria-pressed={model.onlyHits.value} onClick={filter}>
        Only matches
      </button>
      <button
        type="button"
        class="plain"
        aria-label="End the search"
        title="End the search"
        onClick={() => {
          model.query.value = NO_QUERY;
        }}
      >
        <Icon name="close" />
      </button>
    </>
  );
}

function describeMatches(model: TurnModel): string {
  const hits = model.hits.value;
  if (model.findError.value) return model.findError.value;
  if (!hits) return "…";
  const count = hits.slots.length;
  if (!count) return "No matches";
  const here = model.hitNumber.value;
  const all = count.toLocaleString("en");
  if (here) return `${here.toLocaleString("en")} of ${all}`;
  return formatMany(count, "row matches", "rows match");
}
