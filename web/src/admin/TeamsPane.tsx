// Teams and the organisation: their limits, and what is used of them.
import { Sheet } from "../ui/Sheet.tsx";
import { askAll, type ScopeUsage, type TeamRow } from "./api.ts";
import { UsageCell } from "./UsageCell.tsx";
import { useRows } from "./useRows.ts";

async function load() {
  const [teams, scopes] = await Promise.all([askAll<TeamRow>("teams"), askAll<ScopeUsage>("limits")]);
  return { teams, scopes };
}

export function TeamsPane() {
  const { rows, error, refresh } = useRows(load);
  const limits = (scope: string, name: string) =>
    rows?.scopes.find((one) => one.scope === scope && one.name === name)?.limits ?? [];
  return (
    <section aria-label="Teams" class="admin-pane">
      <div class="admin-tools">
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </div>
      {error && (
        <p class="admin-error" role="alert">
          {error}
        </p>
      )}
      {!rows && !error && <p class="soft">Reading…</p>}
      {rows && (
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
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">The whole organisation</th>
              <td class="figure" />
              <td />
              <td>
                <UsageCell limits={limits("organisation", "")} />
              </td>
              <td />
            </tr>
            {rows.teams.map((team) => (
              <tr key={team.name}>
                <th scope="row">{team.name}</th>
                <td class="figure">{team.keys}</td>
                <td>{team.models.join(", ")}</td>
                <td>
                  <UsageCell limits={limits("team", team.name)} />
                </td>
                <td>{team.note}</td>
              </tr>
            ))}
          </tbody>
        </Sheet>
      )}
    </section>
  );
}
