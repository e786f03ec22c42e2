// Sessions: the turns of one conversation of a client. The list, or one of them.
import "./runs.css";
import { formatRoute, route } from "../router.ts";
import { formatCost, formatCount, formatDuration, formatManyShort, formatTime } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { SessionView } from "./SessionView.tsx";
import { atLeast, type Session, share } from "./sessions.ts";
import { useFresh } from "./useSession.ts";

export function RunsView() {
  const { id } = route.value;
  return (
    <div class="scrolling">
      <div class="runs">{id ? <SessionView key={id} id={id} /> : <SessionList />}</div>
    </div>
  );
}

interface Answer {
  sessions: Session[];
  more: number;
  /** Older turns on disk, which are not read. */
  unread: number;
}

function SessionList() {
  const { found, error } = useFresh<Answer>("/inspector/sessions");
  return (
    <>
      <header class="runs-head">
        <h1>Runs</h1>
        <p class="soft">Turns of one conversation, by client and key.</p>
      </header>
      {error && (
        <p class="runs-error" role="alert">
          {error}
        </p>
      )}
      {found && (found.sessions.length > 0 ? <SessionTable {...found} /> : <Empty />)}
      {found && found.unread > 0 && <Unread count={found.unread} />}
      {!found && !error && <p class="soft">Looking for sessions…</p>}
    </>
  );
}

function Empty() {
  return (
    <div class="notice">
      <h2>No sessions</h2>
      <p>
        Point an agent or a chat client at this gateway: its turns are grouped here by their conversation. Only turns
        whose requests are kept can be grouped.
      </p>
    </div>
  );
}

function Unread({ count }: { count: number }) {
  const turns = formatManyShort(count, "older turn on disk is", "older turns on disk are");
  return (
    <p class="soft">
      {`${turns} not grouped here: only the newest are read. `}
      <a href={formatRoute("streams")}>The list</a> has them all.
    </p>
  );
}

const HEADS = ["Turns", "Took", "Tokens in", "Cached", "Out", "Cost"];

function SessionTable({ sessions, more }: Pick<Answer, "sessions" | "more">) {
  return (
    <>
      <div class="runs-list">
        <Sheet caption="Sessions">
          <thead>
            <tr>
              <th scope="col">Began</th>
              <th scope="col">First words</th>
              <th scope="col">Client</th>
              {HEADS.map((head) => (
                <th key={head} scope="col" class="figure">
                  {head}
                </th>
              ))}
              <th scope="col">Notes</th>
            </tr>
          </thead>
          <tbody>
            {sessions.map((session) => (
              <SessionLine key={session.id} session={session} />
            ))}
          </tbody>
        </Sheet>
      </div>
      {more > 0 && <p class="soft">{formatManyShort(more, "older session is", "older sessions are")} not listed.</p>}
    </>
  );
}

function SessionLine({ session }: { session: Session }) {
  const { id, began, ended, turns } = session;
  return (
    <tr>
      <td class="when" data-head="Began">
        {formatTime(began)}
      </td>
      <th scope="row" class="runs-title">
        <a href={formatRoute("runs", id)}>{visibleText(session.title) || "without words"}</a>
        <span class="soft">{visibleText(session.models.join(", "))}</span>
      </th>
      <td class="runs-client" data-head="Client">
        {visibleText(session.client) || <span title="It sends no User-Agent">no name</span>}
        {named(session) && <span class="soft"> {session.key}</span>}
      </td>
      <td class="figure" data-head="Turns">
        {formatCount(turns)}
      </td>
      <td class="figure" data-head="Took">
        {formatDuration(ended - began)}
      </td>
      <td class="figure" data-head="Tokens in">
        {countOf(session, session.input)}
      </td>
      <td class="figure" data-head="Cached">
        {share(session.cached, session.input)}
      </td>
      <td class="figure" data-head="Out">
        {countOf(session, session.output)}
      </td>
      <td class="figure" data-head="Cost">
        {costOf(session)}
      </td>
      <td class="runs-noted">
        <Notes session={session} />
      </td>
    </tr>
  );
}

/** Some turns without a price make it a lower bound. */
export function costOf({ cost, unpriced }: Session): string {
  return atLeast(formatCost(cost), cost !== null, unpriced);
}

/** Some turns without usage make it a lower bound. */
export function countOf({ uncounted }: Session, tokens: number | null): string {
  return atLeast(formatCount(tokens), tokens !== null, uncounted);
}

function Notes({ session }: { session: Session }) {
  const { running, loops, stalls, faults, forked_from } = session;
  return (
    <span class="runs-notes">
      {running && <span class="run-tag run">running</span>}
      {loops > 0 && <span class="run-tag bad">{counted(loops, "loop")}</span>}
      {stalls > 0 && <span class="run-tag warn">{counted(stalls, "stall")}</span>}
      {faults > 0 && <span class="run-tag bad">{counted(faults, "fault")}</span>}
      {forked_from && <span class="run-tag">branch</span>}
    </span>
  );
}

function counted(count: number, word: string): string {
  return `${count} ${word}${count > 1 ? "s" : ""}`;
}

/** Whether a key was used: without one, the gateway calls it anonymous. */
export function named({ key }: Session): boolean {
  return key !== "" && key !== "anonymous";
}
