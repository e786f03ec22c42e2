// What is wrong with the configuration: each problem with its place and what helps.
import { Icon } from "../ui/Icon.tsx";
import { askAdmin, type ConfigCheck } from "./api.ts";
import { useRows } from "./useRows.ts";

const load = () => askAdmin<ConfigCheck>("check");

export function CheckPane() {
  const { rows: found, error, refresh } = useRows(load);
  return (
    <section aria-label="Configuration" class="admin-pane">
      <div class="admin-tools">
        <button type="button" onClick={refresh}>
          Check again
        </button>
        <span class="soft">{found?.path || (found ? "There is no penstock.toml." : "")}</span>
      </div>
      {error && (
        <p class="admin-error" role="alert">
          {error}
        </p>
      )}
      {!found && !error && <p class="soft">Checking…</p>}
      {found?.error && (
        <p class="admin-error" role="alert">
          The file as it is now is not used; the gateway goes on with the last good one. {found.error}
        </p>
      )}
      {found && found.restart_needed.length > 0 && (
        <p>These settings count after a restart: {found.restart_needed.join(", ")}.</p>
      )}
      {found && found.problems.length === 0 && !found.error && <p>No problem was found.</p>}
      {found && found.problems.length > 0 && (
        <ul class="check-list" aria-label="Problems">
          {found.problems.map((problem) => (
            <li key={`${problem.setting} ${problem.message}`}>
              <Icon name="warn" />
              <span>
                <code>{problem.setting || "environment"}</code>
                {problem.line > 0 && <span class="soft"> line {problem.line}</span>}: {problem.message}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
