"""Thinking parts of a request ↔ reasoning with its state. Leans on `thinking` for the form in which we packed it.

A host keeps one thinking item a round, or gives back the pieces it was given; in both cases neighbours are one run, in
which the last metadata speaks for all. Other providers' metadata is read as far as its words are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.protocols.vscode.settings import NAME
from penstock.protocols.vscode.thinking import COMPLETE, PACKED, REDACTED, SIGNATURE, Thought, is_packed, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Extra
    from penstock.pick import Object


def read_run(run: Sequence[Object], given: list[Thought]) -> tuple[list[rq.Reasoning], bool]:
    """The reasoning of neighbouring thinking parts, and whether its state could be read.

    `given` are the thoughts that came before in this message; those that are packed in here again are not repeated.
    """
    value = "".join(_said(part) for part in run)
    id = next((word for part in reversed(run) if (word := reading.text(part, "id"))), "")  # noqa: A001 — as the part calls it
    nothing: Object = {}
    metadata = next((state for part in reversed(run) if (state := reading.table(part, "metadata"))), nothing)
    if is_packed(metadata):
        thoughts = unpack(metadata)
        known = thoughts[len(given) :] if thoughts[: len(given)] == given else thoughts
        given += known
        if thoughts:
            return [
                rq.Reasoning(one.text, one.form, item=one.id, extra=reading.state(one.extra or {}) or None)
                for one in known
            ], True
        return ([rq.Reasoning(value, item=id)] if value else []), False
    return _foreign(value, id, metadata), True


def _said(part: Object) -> str:
    if not isinstance(part.get("value"), str | list):
        raise BadRequest("a string or a list of strings", part.get("value"), "value")
    return "".join(reading.strings(part, "value"))


def _foreign(value: str, id: str, metadata: Object) -> list[rq.Reasoning]:
    """What another provider left: a signature is Claude's, encrypted content is of the Responses API."""
    words: dict[str, str] = {key: said for key, said in metadata.items() if isinstance(said, str) and said != ""}
    extra: Extra = {}
    if SIGNATURE in words:
        extra["anthropic"] = {"signature": words[SIGNATURE]}
    if PACKED in words:
        extra["responses"] = {"encrypted_content": words[PACKED], **({"id": id} if id else {})}
    text = words.get(COMPLETE, value)
    made = [rq.Reasoning(text, item=id, extra=extra or None)] if text or extra else []
    if REDACTED in words:
        made.append(rq.Reasoning(form="redacted", extra={"anthropic": {"redacted": words[REDACTED]}}))
    return made


def write_run(run: Sequence[rq.Reasoning]) -> Object:
    """Neighbouring reasoning as the one thinking part that a host would keep."""
    thoughts = [Thought(one.text, one.item, one.form, _others(one.extra)) for one in run]
    id = next((one.item for one in reversed(run) if one.item), "")  # noqa: A001 — as the part calls it
    part: Object = {"kind": "thinking", "value": "".join(one.text for one in run), **({"id": id} if id else {})}
    if len(run) > 1 or any(one.extra or one.form != "full" for one in thoughts):
        part["metadata"] = pack(thoughts)
    return part


def _others(extra: Extra | None) -> Extra | None:
    return reading.state({key: own for key, own in (extra or {}).items() if key != NAME}) or None


def note_raw(parts: list[rq.Reasoning], raw: list[Object]) -> None:
    """Note how reasoning was written, if it would be written in another way."""
    if [{**element, "kind": "thinking"} for element in raw] != [write_run(parts)]:
        parts[0].extra = {**(parts[0].extra or {}), NAME: {"_": {"raw": raw, "run": len(parts)}}}
