"""What all files of this folder share: the protocol's name, and its corner of an event's extra data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import as_json, fit

if TYPE_CHECKING:
    from penstock.events import Extra

NAME = "gemini"
SEAL: Extra = {NAME: {"partMetadata": {"penstock": "system"}}}  # on marks that we have written: no text can hold it


def own(**fields: Any) -> Extra | None:
    """Extra data of this protocol, without the fields that say nothing."""
    told = {key: value for key, value in fields.items() if value is not None and value is not False}
    return {NAME: told} if told else None


def said(**fields: Any) -> dict[str, Any]:
    """An object without the fields that are unknown."""
    return {key: value for key, value in fields.items() if value is not None}


def owned(extra: Extra | None) -> dict[str, Any]:
    """This protocol's corner of an event's extra data."""
    return extra.get(NAME, {}) if extra else {}


def shaped(value: dict[str, Any], shape: Any) -> Any:
    """An object that is kept as it was, read as a Struct; what does not fit is left out of the Struct alone."""
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass
    try:
        return fit(msgspec.json.decode(as_json(value)), shape)[0]
    except msgspec.ValidationError:
        return shape()
