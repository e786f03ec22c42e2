"""`python -m tools.agents [NAME …]`: every agent, or those whose names begin so, before every upstream; the matrix.

At the end llmprobe, which may also be named alone. Exit code 1 when anything is bad. `--keep DIR` saves what each said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.agents.probe import probe
from tools.agents.programs import AGENTS
from tools.agents.trial import UPSTREAMS, Verdict, attempt

NODE = Path(__file__).resolve().parents[2] / ".venv/bin/node"
PROBE = "llmprobe"
Found = dict[tuple[str, str], Verdict]


def table(found: Found) -> str:
    """The matrix, and what is wrong below it."""
    width = max(len(name) for name, _ in found) + 2
    lines = [" " * width + "".join(f"{name:>22}" for name in UPSTREAMS)]
    for agent in dict.fromkeys(name for name, _ in found):
        cells = [found.get((agent, protocol)) for protocol in UPSTREAMS]
        lines.append(f"{agent:<{width}}" + "".join(f"{_cell(one):>22}" for one in cells))
    wrong = [f"{agent} before {up}: {row}" for (agent, up), made in found.items() for row in made.wrong]
    return "\n".join([*lines, "", *wrong])


def _cell(made: Verdict | None) -> str:
    if made is None:
        return "-"
    return "bad" if made.wrong else f"ok ({made.requests} asked, {made.seconds:.0f} s)"


def main() -> int:
    """Try them one after the other: an agent takes a core by itself."""
    given = argparse.ArgumentParser(prog="make agents", description=__doc__)
    given.add_argument("names", nargs="*", help="agents whose names begin so; all if none is given")
    given.add_argument("--upstream", choices=UPSTREAMS, action="append", help="only this protocol behind the gateway")
    given.add_argument("--limit", type=float, default=180.0, help="seconds for one agent")
    given.add_argument("--keep", type=Path, help="a folder for what each agent said")
    given.add_argument("--node", type=Path, default=NODE)
    given.add_argument("--list", action="store_true")
    args = given.parse_args()
    chosen = [name for name in AGENTS if not args.names or name.lower().startswith(tuple(map(str.lower, args.names)))]
    probed = not args.names or PROBE in args.names
    if args.list or not (chosen or probed):
        print("\n".join([*AGENTS, PROBE]))
        return 0 if args.list else 2
    good = _agents(chosen, args) if chosen else True
    if probed:
        lines, passed = probe(args.node, args.limit)
        print("\n".join(lines))
        good = good and passed
    return 0 if good else 1


def _agents(chosen: list[str], args: argparse.Namespace) -> bool:
    found: Found = {}
    for name in chosen:
        for protocol in args.upstream or UPSTREAMS:
            made = found[name, protocol] = attempt(AGENTS[name], protocol, args.node, args.limit)
            print(f"{name} before {protocol}: {'; '.join(made.wrong) or _cell(made)}", file=sys.stderr, flush=True)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{name.replace(', ', '-').replace(' ', '-')}.{protocol}.log").write_text(made.said)
    print(table(found))
    return not any(made.wrong for made in found.values())


if __name__ == "__main__":
    sys.exit(main())
