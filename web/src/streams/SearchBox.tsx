// The search: a combobox whose options and errors come from the gateway, which alone knows the query language.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { charactersOf, type Option, type QueryProblem } from "./completion.ts";
import { partialNote } from "./listing.ts";
import { listing, unreadable } from "./live.ts";
import { useCompletion } from "./useCompletion.ts";

/** What the keys do while something is typed. */
const TYPING_KEYS = [
  { keys: ["Tab"], label: "Take the chosen completion, or the first one" },
  { keys: ["ArrowDown", "ArrowUp"], label: "Choose a completion" },
  { keys: ["Enter"], label: "Search; take the chosen completion" },
  { keys: ["Escape"], label: "Close the completions, then clear the search" },
];

interface Props {
  input: RefObject<HTMLInputElement | null>;
  q: string;
  /** Of a search that was not typed here. */
  error: QueryProblem | null;
  onSearch: (q: string) => void;
  onHelp: () => void;
}

export function SearchBox({ input, q, error, onSearch, onHelp }: Props) {
  useKeys("Search box", TYPING_KEYS);
  const typing = useCompletion(input, q, onSearch);
  const { text, options, chosen } = typing;
  const found = typing.typed ? (typing.problem ?? null) : error;
  // What is being typed is not wrong yet while completions are offered.
  const unfinished = options.length > 0 && found !== null && found.position + found.length >= charactersOf(text).length;
  const problem = unfinished ? null : found;
  const wrong = problem !== null;
  useEffect(() => {
    unreadable.value = wrong;
    return () => {
      unreadable.value = false;
    };
  }, [wrong]);
  const settled = text === q && !found;
  return (
    <div class="search">
      <Icon name="search" />
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search requests"
        aria-expanded={options.length > 0}
        aria-controls="search-options"
        aria-autocomplete="list"
        aria-activedescendant={options[chosen] ? `search-option-${chosen}` : undefined}
        aria-invalid={wrong}
        aria-describedby={problem ? "search-error" : "search-hints"}
        value={text}
        placeholder="Search: words, model:opus state:fault cost>0.1"
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget: { value, selectionStart } }) => typing.type(value, selectionStart ?? value.length)}
        onKeyDown={typing.press}
        onBlur={typing.close}
      />
      {text !== "" && (
        <button type="button" class="plain search-clear" aria-label="Clear the search" onClick={typing.clear}>
          <Icon name="close" />
        </button>
      )}
      <button type="button" class="plain search-help" aria-label="How to search" title="How to search" onClick={onHelp}>
        ?
      </button>
      <Options options={options} chosen={chosen} onTake={typing.take} />
      {problem && <Problem text={text} problem={problem} />}
      <Hints shown={settled && text !== ""} />
    </div>
  );
}

/** What may surprise in the search, and what it could not look through. */
function Hints({ shown }: { shown: boolean }) {
  const { hints, partial } = listing.value;
  const texts = [...hints.map(({ message }) => message), ...(partial ? [partialNote(partial)] : [])];
  return (
    <div id="search-hints" class="search-hints" role="note" aria-label="About this search" aria-live="polite">
      {shown && texts.map((text) => <p key={text}>{text}</p>)}
    </div>
  );
}

interface OptionsProps {
  options: Option[];
  chosen: number;
  onTake: (option: Option) => void;
}

function Options({ options, chosen, onTake }: OptionsProps) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <div
      ref={list}
      id="search-options"
      role="listbox"
      aria-label="Completions"
      class="search-options"
      hidden={options.length === 0}
      onMouseDown={(event) => event.preventDefault()} // the search keeps the focus
    >
      {options.map((option, place) => (
        <div
          key={option.text}
          id={`search-option-${place}`}
          role="option"
          aria-selected={place === chosen}
          class="search-option"
          onClick={() => onTake(option)}
        >
          <code>{option.text}</code>
          <span>{option.about}</span>
        </div>
      ))}
    </div>
  );
}

/** The error, and the place in the search that it is about. */
function Problem({ text, problem }: { text: string; problem: QueryProblem }) {
  const { position, length, message } = problem;
  const characters = charactersOf(text);
  return (
    <p id="search-error" class="search-error" role="alert">
      <code class="search-place" aria-hidden="true">
        {characters.slice(Math.max(0, position - 20), position).join("")}
        <mark>{characters.slice(position, position + Math.max(length, 1)).join("")}</mark>
      </code>
      {message}
    </p>
  );
}
