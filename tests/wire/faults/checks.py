"""What is wrong with the end of a cell, as one sentence; nothing where all is right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.wire.faults.answers import ANSWERS, ARGUMENTS, MESSAGE, NAME, REASONING, TEXT, USAGE
from tests.wire.faults.readers import Raw, read
from tests.wire.faults.upstream import script_of

if TYPE_CHECKING:
    from tests.wire.faults.cells import Cell
    from tests.wire.faults.readers import Outcome

FINISHES = {
    "openai-chat": "tool_calls", "responses": "completed", "anthropic": "tool_use", "gemini": "STOP",
    "uistream": "tool-calls",
}  # fmt: skip
CALL = (NAME, json.loads("".join(ARGUMENTS)))
_BROKE = frozenset({"network", "truncated", "malformed", "server", "overloaded", "other"})
# The kind of fault that a journal row may name: what the upstream said itself, a limit that was reached, or a break.
KINDS = {"stall": frozenset({"timeout"}), "error": frozenset({"server", "other"})}


def wrong_outcome(cell: Cell, out: Outcome, *, raw: bool) -> str:
    """What a client should not have seen. `raw`: read by our own reader, which sees every byte."""
    if out.ended in {"broken", "silence"}:
        return f"ended in {out.ended}: {out.broken or 'neither a finish nor an error'}"
    if cell.expected == "duplicate" and cell.passthrough:
        return _passed_through(cell, out) if raw else ""
    if out.ended == "error":
        return _wrong_error(cell, out)
    if cell.expected == "error":
        return f"false success: finish {out.finish}, text {out.text!r}, calls {out.calls}"
    return _duplicated(cell, out) if cell.expected == "duplicate" else _incomplete(cell, out)


def wrong_row(cell: Cell, out: Outcome, rows: list[Any]) -> str:
    """How the journal disagrees with what the client saw."""
    if len(rows) != 1:
        return f"{len(rows)} rows in the journal"
    row = rows[0]
    if (row.protocol, row.stream, row.http) != (cell.client, cell.stream, out.status or row.http):
        return f"the row has {row.protocol}, stream {row.stream}, HTTP {row.http}; the client saw HTTP {out.status}"
    if (row.status == "finish") != (out.ended == "finish"):
        return f"the row says {row.status} {row.finish}{row.fault}, the client saw {out.ended} {out.finish}{out.error}"
    if out.ended == "finish":
        return _wrong_finish(cell, row)
    if row.status not in {"fault", "refused"} or row.fault not in KINDS.get(cell.fault, _BROKE):
        return f"the row says {row.status} {row.fault}: {row.fault_message}"
    return ""


def _wrong_finish(cell: Cell, row: Any) -> str:
    if (row.engine, row.upstream) != (cell.engine, cell.upstream):
        return f"the row says that {row.engine} asked {row.upstream}"
    if cell.stream and cell.fault != "duplicate" and row.finish != "calls":
        return f"the row's finish reason is {row.finish}"
    sent_all = cell.expected == "complete"
    return f"the row's usage is {row.input}, {row.output}" if sent_all and (row.input, row.output) != USAGE else ""


def _wrong_error(cell: Cell, out: Outcome) -> str:
    if cell.expected == "complete":
        return f"error in place of a complete answer: {out.error}"
    if cell.fault == "error" and MESSAGE not in out.error:
        return f"the upstream's message is not in the error: {out.error}"
    if not "".join(TEXT).startswith(out.text) and cell.fault != "duplicate":
        return f"text {out.text!r} before the error was never sent"
    return ""


def _incomplete(cell: Cell, out: Outcome) -> str:
    found = (out.text, out.reasoning, calls_of(out), out.finish)
    wanted = ("".join(TEXT), "".join(REASONING), [CALL], FINISHES[cell.client])
    return "" if found == wanted else f"the answer is {found}"


def _duplicated(cell: Cell, out: Outcome) -> str:
    kind = cell.kind if cell.stream else "structure"
    piece = _piece(cell)
    texts = {"".join(TEXT), "".join(TEXT).replace(piece, piece * 2, 1)} if kind == "text" else {"".join(TEXT)}
    thoughts = {"".join(REASONING)}
    if kind == "reasoning":
        thoughts.add("".join(REASONING).replace(piece, piece * 2, 1))
    if out.text not in texts or out.reasoning not in thoughts:
        return f"text {out.text!r}, reasoning {out.reasoning!r}"
    found = calls_of(out)
    if kind == "arguments":
        runnable = [call for call in found if call[1] is not None]
        return "" if runnable in ([], [CALL]) else f"calls {found}"
    return "" if found == [CALL] and out.finish == FINISHES[cell.client] else f"calls {found}, finish {out.finish}"


def _piece(cell: Cell) -> str:
    """The text of the frame that came twice."""
    kinds = ANSWERS[cell.upstream].kinds
    pieces = {"text": TEXT, "reasoning": REASONING}.get(cell.kind, ("",)) if cell.stream else ("",)
    return pieces[cell.position - kinds.index(cell.kind)] if len(pieces) > 1 else ""


def _passed_through(cell: Cell, out: Outcome) -> str:
    """A stream that is handed on says what it said without a gateway."""
    alone = read(cell.client, Raw(b"".join(script_of(cell).writes)), stream=cell.stream)
    return "" if alone == out else f"passed through {out}, sent {alone}"


def calls_of(out: Outcome) -> list[tuple[str, Any]]:
    """The calls with their arguments read; None for arguments that are not JSON."""
    return [(name, _json(text)) for name, text in out.calls]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
