"""Rows of the audit log about providers and their keys. A change that cannot be logged is not made."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock._gateway.admin_calls import AdminCall
    from penstock._store.key_records import RecordChange

log = logging.getLogger("penstock.admin")


class AuditLogError(OSError):
    """The audit log cannot be written."""


def write_audit(call: AdminCall, action: str, change: RecordChange) -> Callable[[], None]:
    """Write a row, before the change is made. Return a function that removes it, for a change that fails."""
    try:
        remove_row = call.editor.store.add_audit(actor=_actor(call), action=action, changes=(change,))
    except OSError as error:
        raise AuditLogError(f"the audit log cannot be written: {error}") from error

    def undo() -> None:
        try:
            remove_row()
        except Exception as error:  # noqa: BLE001 — the error of the change itself is the one to report
            log.error("%s of %s failed, but the audit log has it: %s", action, change.name, error)  # noqa: TRY400

    return undo


def _actor(call: AdminCall) -> str:
    """Return who asks, for the audit log."""
    return f"key:{call.caller.key}" if call.caller.key_hash else call.caller.key


@contextmanager
def apply_after_change(call: AdminCall) -> Generator[None]:
    """Have this process use providers and keys as they are now, also if the change fails after its first step."""
    try:
        yield
    finally:
        call.services.custom_providers.refresh()
        call.apply_providers()
