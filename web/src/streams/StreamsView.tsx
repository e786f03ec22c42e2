// The live list of turns: filter, search, pause, and keys to move through it.
import "./streams.css";
import { useRef, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { explain } from "../api/client.ts";
import type { Row } from "../api/types.ts";
import { adjust, formatRoute, go, route } from "../router.ts";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { counted, matching, SETS, type StateSet, setOf } from "./filtering.ts";
import { begun, hasOlder, link, linkError, missed, older, pause, paused, rows, waiting } from "./live.ts";
import { StreamsList } from "./StreamsList.tsx";

const SET_NAMES: Record<StateSet, string> = { all: "All", running: "Running", finished: "Finished", broken: "Broken" };

export function StreamsView() {
  const { q = "", state = "all" } = route.value.query;
  const search = useRef<HTMLInputElement>(null);
  const [chosen, setChosen] = useState(lastChosen);
  const found = matching(rows.value, q);
  const shown = state === "all" ? found : found.filter((row) => setOf(row) === state);
  const choose = (id: string) => {
    lastChosen = id;
    setChosen(id);
  };
  const move = (by: number) => {
    const at = shown.findIndex((row) => row.id === chosen);
    const next = shown[Math.max(0, Math.min(at + by, shown.length - 1))];
    if (next) choose(next.id);
  };
  const filter = (change: { q?: string; state?: string }) => {
    const next = { q, state, ...change };
    adjust({ q: next.q, state: next.state === "all" ? "" : next.state });
  };
  useKeys("Streams", [
    { keys: ["j", "ArrowDown"], label: "The next turn", run: () => move(1) },
    { keys: ["k", "ArrowUp"], label: "The turn before", run: () => move(-1) },
    { keys: ["PageDown"], label: "Twenty on", run: () => move(20) },
    { keys: ["PageUp"], label: "Twenty back", run: () => move(-20) },
    { keys: ["g", "Home"], label: "The newest", run: () => move(Number.NEGATIVE_INFINITY) },
    { keys: ["G", "End"], label: "The oldest", run: () => move(Number.POSITIVE_INFINITY) },
    { keys: ["Enter", "o"], label: "Open the turn", run: () => chosen && go("turn", chosen) },
    { keys: ["/"], label: "Search", run: () => search.current?.focus() },
    { keys: ["f"], label: "The next set of states", run: () => filter({ state: nextSet(state) }) },
    { keys: ["p"], label: "Stop the list, or let it go on", run: pause },
    { keys: ["Escape"], label: "Clear the search", run: () => clear(search.current, filter) },
  ]);
  return (
    <div class="streams">
      <h1 class="unseen">Streams</h1>
      <div class="streams-bar">
        <label class="search">
          <Icon name="search" />
          <span class="unseen">Search turns</span>
          <input
            ref={search}
            type="search"
            value={q}
            placeholder="Search: words, or model:opus state:fault client:vscode"
            spellcheck={false}
            onInput={(event) => filter({ q: event.currentTarget.value })}
            onKeyDown={(event) => (event.key === "Enter" || event.key === "ArrowDown") && event.currentTarget.blur()}
          />
        </label>
        <Switch label="States" choices={choicesOf(found)} chosen={state} onChoose={(set) => filter({ state: set })} />
        <PauseButton />
      </div>
      {shown.length ? (
        <StreamsList
          rows={shown}
          chosen={chosen}
          onChoose={choose}
          onOpen={(id) => go("turn", id)}
          onOlder={useOlder(q)}
        />
      ) : (
        <Nothing filtered={rows.value.length > 0} />
      )}
      <Foot count={shown.length} />
    </div>
  );
}

function choicesOf(found: Row[]): Choice<StateSet>[] {
  const counts = counted(found);
  return SETS.map((value) => ({ value, label: [`${SET_NAMES[value]} `, <span class="count">{counts[value]}</span>] }));
}

function PauseButton() {
  const word = paused.value ? "Go on" : "Pause";
  return (
    <button type="button" class="pause" aria-pressed={paused.value} aria-label={word} onClick={pause}>
      <Icon name={paused.value ? "play" : "pause"} />
      <span class="pause-word">{word}</span>
      {waiting.value > 0 && <span class="count">{`${waiting.value} new`}</span>}
    </button>
  );
}

/** Kept while another view is shown, so that coming back finds the same row. */
let lastChosen = "";

function nextSet(state: string): string {
  return SETS[(SETS.indexOf(state as StateSet) + 1) % SETS.length] ?? "all";
}

function clear(search: HTMLInputElement | null, filter: (change: { q?: string; state?: string }) => void): void {
  search?.blur();
  filter({ q: "", state: "all" });
}

function useOlder(query: string): (() => void) | null {
  const [, setAsked] = useState(0);
  if (!about.value?.journal || !hasOlder(query)) return null;
  return () => {
    older(query)
      .then(() => setAsked((count) => count + 1))
      .catch((error) => {
        linkError.value = explain(error);
      });
  };
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <p class="notice">No turn is like that. Esc clears the search.</p>;
  if (!begun.value) return <p class="notice">{linkError.value || "Asking the gateway …"}</p>;
  return (
    <div class="notice">
      <h2>No turns yet</h2>
      <p>
        They appear here as clients send them to <code>{location.origin}</code>. <a href={formatRoute("try")}>Try it</a>{" "}
        sends one, and <a href={formatRoute("file")}>a recorded file</a> can be looked at too.
      </p>
    </div>
  );
}

const LINKS = { open: "live", connecting: "connecting …", lost: "connection lost" };

function Foot({ count }: { count: number }) {
  const now = link.value;
  const recording = about.value?.recording.on;
  return (
    <footer class="streams-foot">
      <span class={`live ${paused.value ? "stopped" : now}`} role="status">
        <span class="state-dot" aria-hidden="true" />
        {paused.value ? "stopped" : LINKS[now]}
        {now === "lost" && linkError.value ? `: ${linkError.value}` : ""}
      </span>
      <span>{`${count.toLocaleString("en")} ${count === 1 ? "turn" : "turns"}`}</span>
      {missed.value > 0 && <span>{`${missed.value.toLocaleString("en")} more went by too fast to be listed`}</span>}
      <span class="foot-note">
        {recording
          ? "Frames are held while this page is open, and recorded on disk"
          : "Frames are held in memory while this page is open; recordings on disk are off"}
      </span>
    </footer>
  );
}
