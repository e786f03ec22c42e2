"""`python -m tools.strict_upstream --scenario parallel-calls --port 8700`: the upstream alone, for experiments."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiohttp import web

from tools.strict_upstream.request_log import RequestLog
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import StrictUpstream


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tools.strict_upstream", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="one-call")
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--log", type=Path, help="a file for every request and its outcome, as JSON lines")
    args = parser.parse_args()
    upstream = StrictUpstream(SCENARIOS[args.scenario], RequestLog(args.log))
    web.run_app(upstream.application(), host="127.0.0.1", port=args.port)


if __name__ == "__main__":
    main()
