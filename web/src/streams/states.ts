// What is shown of a turn's state: a word, its colour, and more about it. Green is only a turn that ended well. Pure.
import type { Row, State } from "../api/types.ts";
import { formatMany } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";

export interface Look {
  label: string;
  tone: string;
  about: string;
}

const LOOKS: Record<State, Look> = {
  open: { label: "waiting", tone: "wait", about: "No byte of the answer has come" },
  streaming: { label: "streaming", tone: "run", about: "The answer is coming" },
  finish: { label: "finished", tone: "good", about: "Ended well" },
  fault: { label: "fault", tone: "bad", about: "Broke off in the answer" },
  cancelled: { label: "cancelled", tone: "warn", about: "The client left" },
  refused: { label: "refused", tone: "bad", about: "Got no answer" },
};

const WARNINGS: Record<string, string> = {
  length: "The answer was cut: it reached the limit of its length",
  refusal: "The model refused to answer",
  filter: "The provider filtered the answer",
};
const FIRST_SERVER_ERROR = 500;

/** What is shown of a turn's state. */
export function lookOf(row: Row): Look {
  const look = LOOKS[row.state] ?? LOOKS.finish;
  if (row.state === "finish") return row.warning || row.malformed ? warningOf(row) : finishOf(row, look);
  return row.state === "refused" && row.http >= FIRST_SERVER_ERROR ? { ...look, label: "failed" } : look;
}

function finishOf({ finish }: Row, look: Look): Look {
  const word = visibleText(finish);
  return finish ? { ...look, label: word, about: `Finished: ${word}` } : look;
}

function warningOf({ finish, warning = "", malformed = 0 }: Row): Look {
  const frames = `${formatMany(malformed, "malformed frame")} left out`;
  const about = [WARNINGS[warning] ?? "", malformed ? frames : ""].filter(Boolean).join(". ");
  return { label: WARNINGS[warning] ? finish : "malformed", tone: "warn", about };
}
