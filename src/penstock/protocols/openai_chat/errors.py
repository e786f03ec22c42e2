"""Error objects of Chat and its dialects → a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.faults import kind_of

if TYPE_CHECKING:
    from penstock.parts import Ledger


def report(ledger: Ledger, error: dict[str, Any] | str) -> None:
    """Break the turn off with what the provider said."""
    said: dict[str, Any] = {"message": error} if isinstance(error, str) else error
    code, kind = said.get("code"), said.get("type")
    places = (said.get("status_code"), said.get("raw_status_code"), code, said.get("status"))
    status = next((value for value in places if isinstance(value, int)), None)
    ledger.fault(
        kind_of(code, kind, status=status), str(said.get("message") or "the provider reported an error"),
        status=status, code=str(code or kind or ""), extra={"openai-chat": said},
    )  # fmt: skip
