// The list of turns: search, states, sorting, columns, pause, and keys to move through it.
import "./streams.css";
import "./list.css";
import "./state.css";
import "./search.css";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import type { Row } from "../api/types.ts";
import { CompareButton, MarkBar } from "../compare/MarkBar.tsx";
import { choosing, markTurn, openOrMark, stopChoosing } from "../compare/marking.ts";
import { KeepingButton } from "../keeping/KeepingButton.tsx";
import { formatRoute, replaceQuery, route } from "../router.ts";
import { formatMany, formatTime } from "../ui/format.ts";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { ColumnMenu } from "./ColumnMenu.tsx";
import { loadSettings } from "./columnSettings.ts";
import { LIST_COLUMNS } from "./columns.tsx";
import { countSets, isRunning, type Listing, liveRows, rowAt, STATE_SETS, type StateSet } from "./listing.ts";
import {
  begun,
  link,
  linkError,
  listing,
  NEWEST,
  pause,
  paused,
  queryError,
  reread,
  searching,
  searchTurns,
  unreadable,
  waiting,
} from "./live.ts";
import { QueryHelp } from "./QueryHelp.tsx";
import { SearchBox } from "./SearchBox.tsx";
import { StreamsList } from "./StreamsList.tsx";
import { clearTyped } from "./useCompletion.ts";

const SET_NAMES: Record<StateSet, string> = {
  all: "All",
  running: "Running",
  finished: "Finished",
  warnings: "Warnings",
  broken: "Broken",
};
const PAGE_KEYS = 20;

loadSettings(LIST_COLUMNS.map(({ id }) => id));

export function StreamsView() {
  const { q = "", state = "all", sort = "time", order = "desc" } = route.value.query;
  const set = STATE_SETS.find((name) => name === state) ?? "all";
  const ascending = order === "asc";
  const input = useRef<HTMLInputElement>(null);
  const [columns, setColumns] = useState<string[]>([]);
  const [helping, setHelping] = useState(false);
  useEffect(() => searchTurns({ q, set, sort, ascending }), [q, set, sort, ascending]);
  useEffect(() => () => searchTurns(NEWEST), []); // other views want to know of all turns
  const now = listing.value;
  const byTime = sort === "time" && !ascending;
  const live = liveRows(now, set, byTime);
  const count = live.length + now.total;
  const findRow = useCallback((place: number) => rowAt(now, place), [now.pages]);
  const at = (place: number): Row | undefined => (place < live.length ? live[place] : findRow(place - live.length));
  const { chosen, place, choose } = useChoice(at, count);
  const filter = (change: Record<string, string>) => setAddress({ q, state: set, sort, order, ...change });
  const move = (by: number) => choose(Math.max(0, Math.min((place < 0 && by > 0 ? -1 : place) + by, count - 1)));
  const clear = () => {
    if (choosing.value) return stopChoosing();
    input.current?.blur();
    clearTyped();
    filter({ q: "", state: "all" });
  };
  useKeys("Streams", [
    { keys: ["j", "ArrowDown"], label: "Next request", run: () => move(1) },
    { keys: ["k", "ArrowUp"], label: "Previous request", run: () => move(-1) },
    { keys: ["PageDown"], label: "Twenty down", run: () => move(PAGE_KEYS) },
    { keys: ["PageUp"], label: "Twenty up", run: () => move(-PAGE_KEYS) },
    { keys: ["g", "Home"], label: "The first", run: () => choose(0) },
    { keys: ["G", "End"], label: "The last", run: () => choose(count - 1) },
    { keys: ["Enter", "o"], label: "Open the request", run: () => chosen && openOrMark(chosen, nameOf(at(place))) },
    { keys: ["m"], label: "Mark to compare two", run: () => chosen && markTurn(chosen, nameOf(at(place))) },
    { keys: ["/"], label: "Search", run: () => input.current?.focus() },
    { keys: ["f"], label: "Next set of states", run: () => filter({ state: nextSet(set) }) },
    { keys: ["p"], label: "Pause the list, or resume", run: pause },
    { keys: ["Escape"], label: "Clear the search", run: clear },
  ]);
  const sortBy = (wanted: string) => {
    const turned = wanted === sort && !ascending;
    filter({ sort: wanted, order: turned ? "asc" : "desc" });
  };
  return (
    <div class="streams">
      <h1 class="unseen">Streams</h1>
      <div class="streams-bar">
        <SearchBox
          input={input}
          q={q}
          error={queryError.value}
          onSearch={(words) => filter({ q: words })}
          onHelp={() => setHelping(true)}
        />
        <Switch label="States" choices={choicesOf(now)} chosen={set} onChoose={(name) => filter({ state: name })} />
        <span class="streams-tools">
          <ColumnMenu shown={columns} />
          <CompareButton />
          <PauseButton />
        </span>
      </div>
      <MarkBar />
      {count > 0 ? (
        <StreamsList
          search={[q, set, sort, order].join("\n")}
          live={live}
          total={now.total}
          rowAt={findRow}
          chosen={chosen}
          chosenPlace={place}
          sorting={{ sort, ascending }}
          onSort={sortBy}
          onColumns={setColumns}
          onOpen={(id, where) => {
            choose(where);
            openOrMark(id, nameOf(at(where)));
          }}
        />
      ) : (
        <Nothing filtered={q !== "" || set !== "all"} />
      )}
      <Foot now={now} set={set} count={count} fresh={byTime ? 0 : now.live.filter((row) => !isRunning(row)).length} />
      {helping && (
        <QueryHelp
          onClose={() => setHelping(false)}
          onTry={(words) => {
            setHelping(false);
            filter({ q: words });
          }}
        />
      )}
    </div>
  );
}

/** How a turn is called where another one is chosen. */
function nameOf(row: Row | undefined): string {
  return row ? `${visibleText(row.asked || row.model || "a turn")}, ${formatTime(row.time)}` : "a turn";
}

const DEFAULTS: Record<string, string> = { state: "all", sort: "time", order: "desc" };

/** Puts the search into the address, without what is the default. */
function setAddress(values: Record<string, string>): void {
  const changed = Object.entries(values).filter(([name, value]) => value !== DEFAULTS[name]);
  replaceQuery(Object.fromEntries(changed));
}

/** Kept while another view is shown, so that coming back finds the same row. */
const last = { id: "", place: -1 };

/** The chosen row. It stays chosen while others come above it. */
function useChoice(at: (place: number) => Row | undefined, count: number) {
  const [, setCount] = useState(0);
  if (count > 0 && last.id && at(last.place)?.id !== last.id) {
    last.place = findPlace(at, last, count);
  } else if (!last.id && last.place >= 0) {
    last.id = at(last.place)?.id ?? ""; // its page has come
  }
  const choose = (place: number) => {
    last.place = place;
    last.id = at(place)?.id ?? "";
    setCount((number) => number + 1);
  };
  return { chosen: last.id, place: last.place, choose };
}

const NEAR = 200;

/** Where a row is now: near to where it was, or unknown. */
function findPlace(at: (place: number) => Row | undefined, { id, place }: typeof last, count: number): number {
  const first = Math.max(0, place - NEAR);
  for (let near = first; near < Math.min(count, place + NEAR); near++) if (at(near)?.id === id) return near;
  return place < count && !at(place) ? place : -1;
}

function choicesOf(now: Listing): Choice<StateSet>[] {
  const [counts, isUnreadable] = [countSets(now), unreadable.value];
  return STATE_SETS.map((value) => ({
    value,
    label: [
      `${SET_NAMES[value]} `,
      <span class="count">{isUnreadable ? "–" : counts[value].toLocaleString("en")}</span>,
    ],
  }));
}

function PauseButton() {
  const word = paused.value ? "Resume" : "Pause";
  return (
    <button type="button" class="pause" aria-pressed={paused.value} aria-label={word} onClick={pause}>
      <Icon name={paused.value ? "play" : "pause"} />
      <span class="pause-word">{word}</span>
      {waiting.value > 0 && <span class="count">{`${waiting.value} new`}</span>}
    </button>
  );
}

function nextSet(set: StateSet): string {
  return STATE_SETS[(STATE_SETS.indexOf(set) + 1) % STATE_SETS.length] ?? "all";
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (!begun.value && !queryError.value) return <p class="notice">{linkError.value || "Asking the gateway …"}</p>;
  if (filtered) {
    return (
      <p class="notice" aria-busy={searching.value}>
        {unreadable.value ? "The search cannot be read." : "No matching requests."} Esc clears the search.
      </p>
    );
  }
  const own = about.value?.sees === "own";
  return (
    <div class="notice" aria-busy={searching.value}>
      <h2>{own ? "None of this key's requests yet" : "No requests yet"}</h2>
      {own && <p>This key sees only the requests of its own tenant; others may have been sent.</p>}
      <p>
        They appear here as clients send them to <code>{location.origin}</code>. <a href={formatRoute("try")}>Try it</a>{" "}
        sends one, and <a href={formatRoute("file")}>a recorded file</a> can be looked at too.
      </p>
    </div>
  );
}

const LINKS = { open: "live", connecting: "connecting …", lost: "connection lost" };

function Foot({ now, set, count, fresh }: { now: Listing; set: StateSet; count: number; fresh: number }) {
  const state = link.value;
  const recording = about.value?.recording.on;
  const isUnreadable = unreadable.value && count > 0;
  const found = Object.values(now.states).reduce((sum, each) => sum + each, 0);
  const more = set === "all" || set === "broken" ? now.requests - found : 0; // a row may stand for many refused requests
  return (
    <footer class="streams-foot">
      <span class={`live ${paused.value ? "stopped" : state}`} role="status">
        <span class="state-dot" aria-hidden="true" />
        {paused.value ? "paused" : LINKS[state]}
        {state === "lost" && linkError.value ? `: ${linkError.value}` : ""}
      </span>
      <span class="foot-count">{isUnreadable ? "rows of the previous search" : formatMany(count, "row")}</span>
      {more > 0 && !isUnreadable && <span>{`${formatMany(more + count, "request")}: equal refusals share a row`}</span>}
      {fresh > 0 && (
        <button type="button" class="plain foot-new" onClick={reread}>
          {`${fresh.toLocaleString("en")} new: show`}
        </button>
      )}
      <span class="foot-note">
        <KeepingButton />
        {recording ? " · recordings on disk" : ""}
      </span>
    </footer>
  );
}
