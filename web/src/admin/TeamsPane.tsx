// Teams and the organisation: their limits, and what is used of them. An admin adds, edits and removes them here.
import { useState } from "preact/hooks";
import { Sheet } from "../ui/Sheet.tsx";
import { askAdmin, askAll, type Organisation, type ScopeUsage, type TeamRow, teamPath } from "./api.ts";
import { PaneTools } from "./PaneTools.tsx";
import { Question } from "./Question.tsx";
import { TeamForm, type TeamTask } from "./TeamForm.tsx";
import { UsageCell } from "./UsageCell.tsx";
import { useRows } from "./useRows.ts";

async function load() {
  const [teams, scopes, organisation] = await Promise.all([
    askAll<TeamRow>("teams"),
    askAll<ScopeUsage>("limits"),
    askAdmin<Organisation>("organisation"),
  ]);
  return { teams, scopes, organisation };
}

export function TeamsPane({ edits }: { edits: boolean }) {
  const { rows, error, refresh } = useRows(load);
  const [task, setTask] = useState<TeamTask | null>(null);
  const [status, setStatus] = useState("");
  const close = () => setTask(null);
  const saved = (words: string) => {
    setTask(null);
    setStatus(words);
    refresh();
  };
  return (
    <section aria-label="Teams" class="admin-pane">
      <PaneTools
        add="Add a team"
        edits={edits}
        onAdd={() => setTask({ kind: "add" })}
        onRefresh={refresh}
        status={status}
        error={error}
        reading={rows === null}
      />
      {rows && <TeamsTable {...rows} edits={edits} onTask={setTask} />}
      {task && task.kind !== "remove" && <TeamForm task={task} onClose={close} onSaved={saved} />}
      {task?.kind === "remove" && (
        <Question
          title={`Remove ${task.row.name}`}
          button="Remove"
          onClose={close}
          run={() => askAdmin<void>(teamPath(task.row.name), "DELETE", undefined, task.row.etag)}
          onDone={() => saved(`${task.row.name} is removed.`)}
        >
          <p>Only a team without keys can be removed: give its keys another team first, or revoke them.</p>
        </Question>
      )}
    </section>
  );
}

interface TableProps {
  teams: TeamRow[];
  scopes: ScopeUsage[];
  organisation: Organisation;
  edits: boolean;
  onTask: (task: TeamTask) => void;
}

function TeamsTable({ teams, scopes, organisation, edits, onTask }: TableProps) {
  const limits = (scope: string, name: string) =>
    scopes.find((one) => one.scope === scope && one.name === name)?.limits ?? [];
  return (
    <Sheet caption="Teams">
      <thead>
        <tr>
          <th scope="col">Team</th>
          <th scope="col" class="figure">
            Keys
          </th>
          <th scope="col">Models</th>
          <th scope="col">Used of its limits</th>
          <th scope="col">Note</th>
          {edits && <th scope="col">Actions</th>}
        </tr>
      </thead>
      <tbody>
        <tr>
          <th scope="row">The whole organisation</th>
          <td class="figure" />
          <td class="wrapping">{organisation.models.join(", ")}</td>
          <td>
            <UsageCell limits={limits("organisation", "")} />
          </td>
          <td />
          {edits && (
            <td>
              {organisation.source === "store" ? (
                <button
                  type="button"
                  aria-label="Edit the organisation"
                  onClick={() => onTask({ kind: "organisation", row: organisation })}
                >
                  Edit
                </button>
              ) : (
                "in penstock.toml"
              )}
            </td>
          )}
        </tr>
        {teams.map((team) => (
          <tr key={team.name}>
            <th scope="row">{team.name}</th>
            <td class="figure">{team.keys}</td>
            <td class="wrapping">{team.models.join(", ")}</td>
            <td>
              <UsageCell limits={limits("team", team.name)} />
            </td>
            <td class="wrapping">{team.note}</td>
            {edits && <td>{team.source === "store" ? <Actions team={team} onTask={onTask} /> : "in penstock.toml"}</td>}
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}

function Actions({ team, onTask }: { team: TeamRow; onTask: (task: TeamTask) => void }) {
  return (
    <span class="row-actions">
      <button type="button" aria-label={`Edit ${team.name}`} onClick={() => onTask({ kind: "edit", row: team })}>
        Edit
      </button>
      <button type="button" aria-label={`Remove ${team.name}`} onClick={() => onTask({ kind: "remove", row: team })}>
        Remove
      </button>
    </span>
  );
}
