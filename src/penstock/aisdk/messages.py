"""Parts that model messages and UI messages share: reasoning, inputs of calls, files, custom parts. Both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick, reading
from penstock import request as rq
from penstock.aisdk.documents import first_id, read_data, write_data
from penstock.aisdk.options import METADATA, OPTIONS, dress, note, undressed
from penstock.aisdk.outputs import value_of
from penstock.aisdk.words import OURS, SDK, encoded
from penstock.errors import BadRequest
from penstock.jsontext import is_json
from penstock.writing import said, split

if TYPE_CHECKING:
    from penstock.pick import Object

WORDS = {SDK: (OPTIONS, METADATA, "experimental_providerMetadata"), "uistream": (METADATA,)}
FORMS = ("full", "summary", "redacted")


def read_text(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Text:
    """Text, and whether it is a refusal."""
    made = rq.Text(reading.needed(part, "text"))
    made.refusal = bool(dress(made, part, known, WORDS[protocol], protocol, **marks).get("refusal"))
    return made


def read_reasoning(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Reasoning:
    """Reasoning with its state."""
    made = rq.Reasoning(reading.needed(part, "text"))
    ours = dress(made, part, known, WORDS[protocol], protocol, **marks)
    made.item = pick.text(ours, "item")
    form: Any = ours.get("form")
    if form in FORMS:
        made.form = form
    elif "redacted" in (made.extra or {}).get("anthropic", ()) and not made.text:
        made.form = "redacted"
    return made


def reasoning_words(part: rq.Reasoning) -> Object:
    """What of reasoning only our own words say."""
    sealed = "redacted" in (part.extra or {}).get("anthropic", ()) and not part.text
    return said(item=part.item, form="" if part.form == ("redacted" if sealed else "full") else part.form)


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def give_input(call: rq.Call, given: Any, *, free: bool, protocol: str) -> None:
    """The input of a call: free text for tools that take it, else any JSON value."""
    if not isinstance(given, str):
        call.json = encoded(given)
    elif free:
        call.json, call.form = given, "text"
    elif given.lstrip().startswith("{") and is_json(given):
        call.json = given
        _, marks = split(call.extra, protocol)
        note(call, protocol, _={**marks, "text": True})
    else:
        call.json = encoded(given)


def input_of(call: rq.Call, marks: Object) -> Any:
    """The input of a call, as a value."""
    return call.json if call.form == "text" or marks.get("text") else value_of(call.json or "{}")


# ── files and custom parts ────────────────────────────────────────────────────────────────────────


def read_file(part: Object, field: str, default: str, protocol: str = SDK) -> rq.File:
    """A file whose data stands under a field of this name. Pages have data URLs where others have base64."""
    word = "mimeType" if "mediaType" not in part and "mimeType" in part else "mediaType"
    label = reading.text(part, word)
    try:
        held = read_data(part.get(field), label, default)
    except BadRequest as error:
        raise error.at(field) from None
    made = rq.File(held.media, held.url, held.data, name=reading.text(part, "filename"), id=first_id(held.reference))
    kind = reading.text(part, "type")
    usual = "data-url" if field == "url" else ""
    form = "" if held.form == usual else held.form or ("bare" if held.data else "")
    ours = dress(
        made, part, {"type", field, word, "filename"}, WORDS[protocol], protocol, mime=word == "mimeType",
        form=form, kind="" if kind == "file" else kind, media="" if held.media == label else label or "-",
        reference=held.reference,
    )  # fmt: skip
    made.id, made.detail = made.id or pick.text(ours, "id"), pick.text(ours, "detail")
    if kind == "reasoning-file":
        note(made, SDK, reasoning=True)
    return made


def write_file(file: rq.File, field: str, protocol: str = SDK) -> Object:
    """A file; one that was an image part stays one."""
    rest, _, marks = undressed(
        file, word=WORDS[protocol][0], protocol=protocol, id=_loose_id(file, protocol), detail=file.detail
    )
    thought = (file.extra or {}).get(SDK, {}).get("reasoning")
    kind = marks.get("kind") or ("reasoning-file" if thought else "file")
    made: Object = {"type": kind}
    form = marks.get("form") or ("data-url" if field == "url" else "")
    made["image" if kind == "image" else field] = write_data(file, form, marks.get("reference"))
    media = marks.get("media") or file.media
    if media != "-":
        made["mimeType" if marks.get("mime") else "mediaType"] = media
    if file.name:
        made["filename"] = file.name
    return {**rest, **made}


def _loose_id(file: rq.File, protocol: str) -> str:
    """An id that no reference holds."""
    return "" if split(file.extra, protocol)[1].get("reference") else file.id


def read_custom(part: Object, protocol: str = SDK) -> rq.Opaque:
    """A custom part: opaque state of ours, if it says so, else of the SDK's, with the options in the SDK's word."""
    word = WORDS[protocol][0]
    owner, _, kind = reading.text(part, "kind").partition(".")
    ours = pick.table(pick.table(part, word), OURS)
    if "opaque" in ours and kind:
        return rq.Opaque(owner, kind, ours["opaque"])
    return rq.Opaque(SDK, "custom", {OPTIONS if key == word else key: value for key, value in part.items()})


def write_custom(part: rq.Opaque, protocol: str = SDK) -> Object:
    """Opaque state as a custom part, which every reader since version 7 keeps."""
    word = WORDS[protocol][0]
    if part.protocol == SDK and part.kind == "custom":
        return {word if key == OPTIONS else key: value for key, value in pick.as_object(part.data).items()}
    return {"type": "custom", "kind": f"{part.protocol}.{part.kind}", word: {OURS: {"opaque": part.data}}}
