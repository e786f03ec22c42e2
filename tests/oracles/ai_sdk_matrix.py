"""The AI SDK's clients against every provider protocol: `streamText` and `generateText` of 5, 6 and 7 with each of its
provider packages, and the class behind `useChat`. The SDK runs the tools and asks again.
`python -m tests.oracles.ai_sdk_matrix` prints the matrix.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from tests.oracles.node.oracle import UI_VERSIONS, Oracles, Provider
from tests.oracles.sdk_matrix import CALL, SAID, SCENARIOS, SCHEMA, SPOKEN, THANKS, THOUGHT, row
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.oracles.node.oracle import Version
    from tests.oracles.sdk_matrix import Cell, Found

PAGE = "usechat"
ONLY = {"open-responses": {7}, "mistral": {7}}  # installed for one version alone
# Who reads no reasoning, or does not say in `generateText` who asks, so that it cannot be told the way it reads it.
SILENT = frozenset({("openai-chat", False), ("openai-chat", True), ("mistral", False)})
WHERE = {"google": "/v1beta", PAGE: "/api/chat"}
TOOL = {"name": CALL[0], "schema": SCHEMA, "output": "3.2"}


def clients() -> dict[str, tuple[Version, str]]:
    """Name → version and client."""
    made = [(ai, name) for ai in UI_VERSIONS for name in (*get_args(Provider), PAGE) if ai in ONLY.get(name, {ai})]
    return {f"ai@{ai} {name}": (ai, name) for ai, name in made}


def check(client: str, scenario: str, stream: bool, seen: dict[str, Any]) -> None:
    """An assertion that fails, if it did not go as it should."""
    assert "error" not in seen, seen["error"]
    if scenario == "text":
        assert seen["text"].startswith("A penstock is the pipe"), seen
    elif scenario == "reasoning":
        assert seen["text"] == SAID, seen
        assert (client, stream) in SILENT or seen["reasoning"].endswith(THOUGHT), seen
    else:
        assert [tuple(call) for call in seen["calls"]] == [CALL], seen
        assert seen["text"].startswith(THANKS), seen
        assert seen["steps"] == 2, seen
    assert seen["finish"] == "stop", seen
    assert seen.get("roles", ["user", "assistant"]) == ["user", "assistant"], seen  # no message is shown twice


def cells(oracles: Oracles, base: str, name: str, chosen: Iterable[Cell] = ()) -> Iterator[Found]:
    """Client, provider, scenario with its form, and what is wrong with it. `chosen`: which ones; else all of them."""
    ai, client = clients()[name]
    for provider, scenario, stream in chosen or product(SPOKEN, SCENARIOS, forms(name)):
        job = {"client": client, "baseURL": base + WHERE.get(client, "/v1"), "stream": stream,
               "model": f"{provider}/{scenario}", "tool": TOOL if scenario == "tools" else None}  # fmt: skip
        wrong = ""
        try:
            ((seen,),) = oracles.run("turns", ai, [job])
            check(client, scenario, stream, seen)
        except AssertionError as error:
            wrong = str(error)[:600]
        yield name, provider, f"{scenario}, {'streamed' if stream else 'whole'}", wrong


def forms(name: str) -> tuple[bool, ...]:
    """A page only streams."""
    return (True,) if name.endswith(PAGE) else (False, True)


def main() -> int:
    """Print the matrix; 1 if a cell of it is bad."""
    bad: list[str] = []
    with gateway() as (running, _), Oracles() as oracles:
        for name in clients():
            if len(sys.argv) > 1 and not name.startswith(tuple(sys.argv[1:])):
                continue
            found = list(cells(oracles, running.url, name))
            sys.stdout.write(row(found) + "\n")
            sys.stdout.flush()
            bad += [f"{one[0]} and {one[1]}, {one[2]}: {one[3]}" for one in found if one[3]]
    sys.stdout.write("\n".join([*bad, ""]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
