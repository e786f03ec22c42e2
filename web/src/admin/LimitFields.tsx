// The limits of a key or team as a small table of numbers. Empty is no limit.
import { KINDS, limitLabel, limitName, WINDOWS } from "./limits.ts";
import type { Problem } from "./problems.ts";

interface Props {
  limits: Record<string, string>;
  problem: Problem;
  onChange: (limits: Record<string, string>) => void;
}

export function LimitFields({ limits, problem, onChange }: Props) {
  const wrong = problem.field.startsWith("limits") ? problem.field.replace(/^limits\.?/, "") : null;
  const cell = (name: string) => (
    <input
      type="number"
      min="0"
      step="any"
      name={`limits.${name}`}
      aria-label={limitLabel(name)}
      aria-invalid={wrong === name}
      aria-describedby={wrong === name ? "limits-error" : undefined}
      value={limits[name] ?? ""}
      onInput={(event) => onChange({ ...limits, [name]: event.currentTarget.value })}
    />
  );
  return (
    <fieldset class="limit-fields">
      <legend>Limits; empty is no limit</legend>
      {wrong !== null && (
        <p class="admin-error" role="alert" id="limits-error">
          {wrong && `${limitLabel(wrong)}: `}
          {problem.message}
        </p>
      )}
      <table>
        <thead>
          <tr>
            <td />
            {KINDS.map(({ name, label }) => (
              <th key={name} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {WINDOWS.map((window) => (
            <tr key={window.label}>
              <th scope="row">{window.label}</th>
              {KINDS.map(({ name }) => {
                const limit = limitName(window.prefix, name);
                return <td key={name}>{limit && cell(limit)}</td>;
              })}
            </tr>
          ))}
          <tr>
            <th scope="row">at once</th>
            <td>{cell("concurrent")}</td>
            <td />
            <td />
          </tr>
        </tbody>
      </table>
    </fieldset>
  );
}
