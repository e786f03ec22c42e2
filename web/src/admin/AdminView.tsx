// Keys, teams, providers, the configuration and the audit log, for callers whose key has a role. Asks nothing but `/admin/*`.
import "./admin.css";
import { useEffect } from "preact/hooks";
import { replaceQuery, route } from "../router.ts";
import { Tabs } from "../ui/Tabs.tsx";
import { AuditLog } from "./AuditLog.tsx";
import { type Caller, caller, resume, signOut } from "./api.ts";
import { CheckPane } from "./CheckPane.tsx";
import { KeysPane } from "./KeysPane.tsx";
import { ProvidersPane } from "./ProvidersPane.tsx";
import { SignIn } from "./SignIn.tsx";
import { TeamsPane } from "./TeamsPane.tsx";
import { UsagePane } from "./UsagePane.tsx";

/** Tabs that need no keys. */
const OWNERS = new Set(["providers", "check", "audit"]);

export function AdminView() {
  useEffect(() => {
    if (!caller.value) void resume();
  }, []);
  const who = caller.value;
  if (who === undefined) return <p class="notice">Signing in…</p>;
  if (who === null) return <SignIn />;
  const edits = who.role === "admin";
  const all = [
    { id: "keys", label: "Keys", content: () => <KeysPane edits={edits} /> },
    { id: "teams", label: "Teams", content: () => <TeamsPane edits={edits} /> },
    { id: "providers", label: "Providers", content: () => <ProvidersPane edits={edits} /> },
    { id: "usage", label: "Usage", content: () => <UsagePane /> },
    { id: "check", label: "Configuration", content: () => <CheckPane /> },
    { id: "audit", label: "Audit log", content: () => <AuditLog /> },
  ];
  const tabs = who.owner ? all.filter(({ id }) => OWNERS.has(id)) : all;
  const first = who.owner ? "providers" : "keys";
  return (
    <div class="scrolling">
      <div class="admin">
        <header class="admin-head">
          <h1>Manage</h1>
          <WhoAmI who={who} />
          {!who.owner && (
            <button type="button" onClick={() => signOut()}>
              Sign out
            </button>
          )}
        </header>
        <Tabs label="Keys, teams and providers" tabs={tabs} chosen={route.value.query.tab ?? first} onChoose={choose} />
      </div>
    </div>
  );
}

/** The key in use, what it may do here, and which role does more. */
function WhoAmI({ who }: { who: Caller }) {
  if (who.owner)
    return (
      <p class="soft">
        This gateway has no keys: you are its owner, by the link that it printed. Keys, teams and what they use are
        managed here as soon as there is a first key: <code>penstock keys add NAME --admin</code>
      </p>
    );
  return (
    <p class="soft">
      Signed in with the key <strong>{who.name}</strong>, which has the role <strong>{who.role}</strong>
      {who.role !== "admin" &&
        ": you can look, and change nothing. To add, edit, test or remove something here, a key needs the role admin."}
    </p>
  );
}

function choose(tab: string): void {
  replaceQuery({ tab });
}
