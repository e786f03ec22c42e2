"""Calls and results → parts. A tool that Google ran goes back into the part it came in; one that left only traces comes
back with the finish, among its metadata. Of another provider's runs a program has parts here, and a search its queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import provider_tools
from penstock.jsontext import is_object, plain_or_raw
from penstock.protocols.gemini.calls import TRACES
from penstock.protocols.gemini.own import owned, said

if TYPE_CHECKING:
    from penstock import events as ev


def function_call(event: ev.CallEnd) -> dict[str, Any]:
    """A call for the client to run."""
    own = owned(event.extra)
    args = {"input": event.json} if event.form == "text" else _object(event.json)
    call = {"id": event.id, "name": event.name, "args": args}
    return said(functionCall=call, thoughtSignature=own.get("thoughtSignature"))


def run(event: ev.CallEnd) -> dict[str, Any] | None:
    """A call that Google ran: its part, an empty one where there is nothing to write, None where there is none."""
    own = owned(event.extra)
    return _part(event.id, event.json, own, "args")


def result(event: ev.Result) -> dict[str, Any] | None:
    """What such a run gave, in the same way."""
    own = owned(event.extra)
    return _part(event.call, event.json, own, "response")


def program(event: ev.CallEnd) -> dict[str, Any]:
    """A program that another provider ran."""
    return {"executableCode": {"language": "PYTHON", "code": provider_tools.program(event.json)}}


def program_output(event: ev.Result) -> dict[str, Any]:
    """What it wrote."""
    outcome = "OUTCOME_FAILED" if event.failed else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": provider_tools.output(event.json)}}


def _part(id: str, json: str, own: dict[str, Any], field: str) -> dict[str, Any] | None:
    kind = own.get("part")
    if kind is None or kind == TRACES:
        return None if kind is None else {}
    inner = {"toolType": own["toolType"], field: _object(json)} if "toolType" in own else _object(json)
    return said(**{kind: {**_id(id, own), **inner}}, thoughtSignature=own.get("thoughtSignature"))


def _object(text: str) -> Any:
    """Arguments must be an object: any other value becomes the argument `input`."""
    value = plain_or_raw(text)
    return value if is_object(value) else {"input": value}


def _id(id: str, own: dict[str, Any]) -> dict[str, str]:
    """Runs are paired by order where Gemini gave no id: a minted one would be news to it when they come back."""
    return {} if own.get("minted") or not id else {"id": id}
