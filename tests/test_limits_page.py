"""docs/limits.md names every limit on input that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
HERE = Path(__file__).parents[1]
SOURCE = HERE / "src" / "penstock"
PAGE = (HERE / "docs" / "limits.md").read_text(encoding="utf-8")
LIKE_A_LIMIT = re.compile(r"(^|_)(MAX|MOST|LIMIT|LARGEST|LONGEST)(_|$)|^(LINES|MEMBERS)$")
# Names that look like limits and are not about input: caches, times, what we write ourselves, and tools for tests.
OTHERS = {
    "agent._LIMIT",
    "caching.LIMIT",
    "config._MAX_CACHED",
    "retries.MAX_CIRCUITS",
    "retries.MAX_DELAY",
    "reply.MAX_PREAMBLE_BYTES",
    "writer.MAX_WAITING_JOBS",
    "tokens.MAX_COUNTS",
    "model_resolution._MAX_ALIAS_DEPTH",
    "scripts.MAX_CHOICES",
    "oauth_tokens._LIMIT",
    "history.MAX_ROWS",
    "ledger.MOST_CHOICES",
    "lost_settings.LIMIT",
    "pool.MAX_IDLE",
    "pool._MAX_SESSIONS",
    "proxy_and_tls.MAX_CONTEXTS",
    "transport_errors._MAX_ERROR_BODY",
    "transport_errors._MAX_LOCATION",
    "redaction._LONGEST",
    "plan_cache._MAX_CACHED",
    "sdk.MAX_IDLE_CLIENTS",
    "speaking._LONGEST",
    "upstream._LIMIT",
    "upstream._BODY_LIMIT",
}


def _names(tree: ast.Module) -> Iterator[str]:
    """The names that a module assigns."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _limits() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        if "cli" in path.relative_to(SOURCE).parts:
            continue
        for name in _names(ast.parse(path.read_text(encoding="utf-8"))):
            if LIKE_A_LIMIT.search(name):
                yield name if path.stem == "input_limits" else f"{path.stem}.{name}"


def test_the_page_names_every_limit() -> None:
    assert sorted(name for name in {*_limits()} - OTHERS if f"`{name}`" not in PAGE) == []


def test_the_page_names_no_limit_that_is_gone() -> None:
    named = {
        name for name in re.findall(r"`(?:\w+\.)?_?[A-Z][A-Z_]{3,}`", PAGE) if LIKE_A_LIMIT.search(name.strip("`"))
    }
    assert sorted(named - {f"`{name}`" for name in _limits()}) == []
    assert set(OTHERS) <= {*_limits()}
