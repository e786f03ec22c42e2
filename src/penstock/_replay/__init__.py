"""The replay provider: packaged streams, so that every client and page can be tried with no key and no network.

`answer` is what the provider says to a request, `play` one script by name, `wire` its bytes in any protocol.
"""

from penstock._replay.provider import AGENT, FULL, NATURAL, Pace, answer, find_script, iterate_wire_cases, paced, wire
from penstock._replay.scripts import describe_scripts, play, scripts

__all__ = [
    "AGENT",
    "FULL",
    "NATURAL",
    "Pace",
    "answer",
    "describe_scripts",
    "find_script",
    "iterate_wire_cases",
    "paced",
    "play",
    "scripts",
    "wire",
]
