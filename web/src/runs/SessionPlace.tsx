// On the page of a turn: its session, its place in it, and the turns beside it.
import "./runs.css";
import { formatRoute, go } from "../router.ts";
import { Icon } from "../ui/Icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { visibleText } from "../ui/visibleText.ts";
import type { Session } from "./sessions.ts";
import { useFresh } from "./useSession.ts";

/** The session of a turn, and the ids of its turns; none of both, if the turn is not held. */
interface Answer {
  sessions: Session[];
  turns: string[];
}

const NOTHING: Answer = { sessions: [], turns: [] };

interface Props {
  id: string;
  /** Which view of a turn is shown: the turns beside it open in the same. */
  query?: Record<string, string>;
}

export function SessionPlace({ id, query = {} }: Props) {
  // Without an answer nothing is shown: the page of the turn says what is wrong.
  const path = `/inspector/sessions?turn=${encodeURIComponent(id)}`;
  const { sessions, turns } = useFresh<Answer>(path, true).found ?? NOTHING;
  const place = turns.indexOf(id);
  const session = sessions[0];
  const before = turns[place - 1];
  const after = turns[place + 1];
  const open = (turn: string | undefined) => {
    if (turn) go("turn", turn, query);
  };
  useKeys(
    "Its session",
    [
      { keys: ["["], label: "The turn before in its session", run: () => open(before) },
      { keys: ["]"], label: "The next turn in its session", run: () => open(after) },
    ],
    place >= 0,
  );
  if (!session || place < 0) return null;
  return (
    <nav class="session-place" aria-label="Session">
      <Step turn={before} query={query} label="Turn before in the session" icon="left" />
      <a href={formatRoute("runs", session.id)} title={visibleText(session.title)}>
        Turn {place + 1} of {turns.length}
      </a>
      <Step turn={after} query={query} label="Next turn in the session" icon="right" />
    </nav>
  );
}

interface StepProps {
  turn: string | undefined;
  query: Record<string, string>;
  label: string;
  icon: "left" | "right";
}

function Step({ turn, query, label, icon }: StepProps) {
  return turn ? (
    <a class="button" href={formatRoute("turn", turn, query)} aria-label={label} title={label}>
      <Icon name={icon} />
    </a>
  ) : null;
}
