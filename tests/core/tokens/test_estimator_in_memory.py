"""An estimator that works from memory: it gives the same counts, and never touches the stores of the one it is from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import HybridTokenEstimator
from penstock.events import Usage
from penstock.tokens import TokenStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MODEL, PROVIDER = "gpt-5", "openai"
MESSAGES = [{"role": "user", "content": "What is a penstock?"}]
ANSWER = {"role": "assistant", "content": "A pipe that carries water to a turbine."}


class LockedStore:
    """Stores that fail as soon as somebody uses them."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        raise AssertionError(f"read by {tenant!r}: {list(keys)}")

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        raise AssertionError(f"written by {tenant!r}: {list(rows)}")

    def update(self, tenant: str, key: str, change: Callable[[bytes | None], bytes], /) -> bytes:
        raise AssertionError(f"changed by {tenant!r}: {key}")


def test_it_never_uses_the_stores() -> None:
    store = LockedStore()
    whole = HybridTokenEstimator(counts=store, learned=store)
    with pytest.raises(AssertionError):
        whole.estimate_conversation(MESSAGES, MODEL, PROVIDER)
    assert whole.in_memory().estimate_conversation(MESSAGES, MODEL, PROVIDER).tokens > 0


def test_it_shares_what_is_learned() -> None:
    whole = HybridTokenEstimator(counts=(store := TokenStore()), learned=store.factors)
    quick = whole.in_memory()
    assert not quick.has_counted(MODEL, PROVIDER)
    assert whole.estimate_conversation(MESSAGES, MODEL, PROVIDER) == quick.estimate_conversation(
        MESSAGES, MODEL, PROVIDER
    )
    assert quick.has_counted(MODEL, PROVIDER)
    whole.calibrate(MESSAGES, Usage(input=99, output=9), MODEL, PROVIDER)
    longer = [*MESSAGES, ANSWER, {"role": "user", "content": "Thanks"}]
    assert quick.estimate_conversation(MESSAGES, MODEL, PROVIDER).method == "actual"
    assert quick.estimate_conversation(longer, MODEL, PROVIDER) == whole.estimate_conversation(longer, MODEL, PROVIDER)
    assert quick.factor(MODEL, PROVIDER) == whole.factor(MODEL, PROVIDER)
    store.close()
