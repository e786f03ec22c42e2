// Keys, teams and the audit log, for whoever has a key with a role. Asks nothing but `/admin/*`.
import "./admin.css";
import { useEffect } from "preact/hooks";
import { adjust, route } from "../router.ts";
import { Tabs } from "../ui/Tabs.tsx";
import { AuditLog } from "./AuditLog.tsx";
import { caller, resume, signOut } from "./api.ts";
import { KeysPane } from "./KeysPane.tsx";
import { SignIn } from "./SignIn.tsx";
import { TeamsPane } from "./TeamsPane.tsx";

export function AdminView() {
  useEffect(() => {
    if (!caller.value) void resume();
  }, []);
  const who = caller.value;
  if (who === undefined) return <p class="notice">Signing in…</p>;
  if (who === null) return <SignIn />;
  const edits = who.role === "admin";
  const tabs = [
    { id: "keys", label: "Keys", content: () => <KeysPane edits={edits} /> },
    { id: "teams", label: "Teams", content: () => <TeamsPane /> },
    { id: "audit", label: "Audit log", content: () => <AuditLog /> },
  ];
  return (
    <div class="scrolling">
      <div class="admin">
        <header class="admin-head">
          <h1>Keys</h1>
          <p class="soft">
            Signed in as <strong>{who.name}</strong>, {who.role}
            {edits ? "" : ": you can look, and change nothing"}
          </p>
          <button type="button" onClick={() => signOut()}>
            Sign out
          </button>
        </header>
        <Tabs label="Keys and teams" tabs={tabs} chosen={route.value.query.tab ?? "keys"} onChoose={choose} />
      </div>
    </div>
  );
}

function choose(tab: string): void {
  adjust({ tab });
}
