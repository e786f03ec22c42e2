"""Every JSON key path in the corpus is read, or listed with a reason in `tests/data/ignored_paths.toml`.

Read means: some event changes when the key is taken away or its value changed (`tests.support.key_mutation`).
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import corpus
from tests.support import key_mutation as mutation
from tests.support import recorded_streams as recorded
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.nightly
KINDS = ("streams", "responses", "errors")


@cache
def written() -> dict[str, Any]:
    return tomllib.loads((TESTS / "data" / "ignored_paths.toml").read_text())


def patterns(kind: str, protocol: str) -> dict[str, str]:
    """Pattern to reason."""
    rows = written().get(kind, {}).get(protocol, [])
    return {pattern: row["why"] for row in rows for pattern in row["paths"]}


def matching(pattern: str, paths: set[str]) -> set[str]:
    """`*` stands for anything, and a path covers what is below it."""
    found = re.compile(re.escape(pattern).replace(r"\*", ".*") + r"([.\[].*)?")
    return {path for path in paths if found.fullmatch(path)}


@pytest.mark.parametrize(("protocol", "kind"), list(product(recorded.SOURCES, KINDS)))
def test_every_path_is_read_or_ignored_for_a_reason(
    protocol: str, kind: str, record_property: Callable[[str, object], None]
) -> None:
    corpus.corpus_or_skip()
    unread, known = mutation.ignored(kind, protocol)
    listed = patterns(kind, protocol)
    record_property(
        "table", f"{protocol:20}{len(known) - len(unread):6,} of {len(known):6,} key paths of {kind} are read"
    )
    covered = {pattern: matching(pattern, unread) for pattern in listed}
    assert all(listed.values())
    assert unread - set().union(*covered.values()) == set(), "neither read nor listed"
    assert [pattern for pattern, paths in covered.items() if not paths] == [], "listed, but read or gone"
