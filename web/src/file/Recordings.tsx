// The gateway's own recordings, newest first.
import { useEffect, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { askJson, explain } from "../api/client.ts";
import { formatRoute } from "../router.ts";
import { formatBytes, formatTime } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";

interface Recording {
  name: string;
  time: number;
  size: number;
  title: string;
}

export function Recordings() {
  const [recordings, setRecordings] = useState<Recording[] | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    askJson<{ recordings: Recording[] }>("/inspector/recordings", { signal: gone.signal })
      .then((answer) => setRecordings(answer.recordings))
      .catch((why) => gone.signal.aborted || setError(explain(why)));
    return () => gone.abort();
  }, []);
  return (
    <section class="recordings" aria-labelledby="recordings-title">
      <h2 id="recordings-title">Recordings of this gateway</h2>
      {error && <p class="soft">{error}</p>}
      {recordings && (recordings.length > 0 ? <List recordings={recordings} /> : <None />)}
    </section>
  );
}

function None() {
  if (about.value?.recording.on) return <p class="soft">None yet: the next turn will be one.</p>;
  return (
    <p class="soft">
      Recording is off. <code>penstock serve --record recordings</code> saves what goes through, with secrets taken out.
    </p>
  );
}

function List({ recordings }: { recordings: Recording[] }) {
  return (
    <Sheet caption="Recordings">
      <thead>
        <tr>
          <th scope="col">Recorded</th>
          <th scope="col">What</th>
          <th scope="col">File</th>
          <th scope="col" class="figure">
            Size
          </th>
        </tr>
      </thead>
      <tbody>
        {recordings.map(({ name, time, size, title }) => (
          <tr key={name}>
            <td>{formatTime(time)}</td>
            <td>{title}</td>
            <td>
              <a href={formatRoute("file", name)}>{name}</a>
            </td>
            <td class="figure">{formatBytes(size)}</td>
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}
