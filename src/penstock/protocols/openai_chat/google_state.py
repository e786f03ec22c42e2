"""Gemini's thought signature in the OpenAI form (`extra_content.google.thought_signature`) ↔ canonical state of Gemini.

https://ai.google.dev/gemini-api/docs/thought-signatures: Gemini 3 refuses a history whose calls lack their signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pick import as_object, table, text

if TYPE_CHECKING:
    from penstock.events import Extra
    from penstock.pick import Object

NAME = "openai-chat"
FIELD, GOOGLE, SIGNATURE = "extra_content", "google", "thought_signature"
_PROTOCOL, _STATE = "gemini", "thoughtSignature"  # where canonical extra data keep it


def read_state(content: Any) -> Extra:
    """What `extra_content` holds, as state of the protocol whose state it is; nothing where it holds none."""
    signature = text(table(as_object(content), GOOGLE), SIGNATURE)
    return {_PROTOCOL: {_STATE: signature}} if signature else {}


def read_extra(content: Any) -> Extra | None:
    """All of `extra_content`: the state, and what else it holds as a field of this protocol."""
    state, rest = read_state(content), rest_of(content)
    made: Extra = {**({NAME: {FIELD: rest}} if rest else {}), **state}
    return made or None


def rest_of(content: Any) -> Object:
    """What else `extra_content` holds."""
    given = as_object(content)
    google = {key: value for key, value in as_object(given.get(GOOGLE)).items() if key != SIGNATURE}
    rest = {key: value for key, value in given.items() if key != GOOGLE}
    return {**rest, GOOGLE: google} if google else rest


def merged_content(own: Object, state: Object) -> Object:
    """A protocol's own fields with the field for state: what else stands in that field stays."""
    if not state or FIELD not in own:
        return {**own, **state}
    given = as_object(own[FIELD])
    return {**own, FIELD: {**given, GOOGLE: {**as_object(given.get(GOOGLE)), **state[FIELD][GOOGLE]}}}


def write_state(extra: Extra | None) -> Object:
    """The field for the state in canonical extra data; nothing where there is none."""
    signature = (extra or {}).get(_PROTOCOL, {}).get(_STATE)
    return {FIELD: {GOOGLE: {SIGNATURE: signature}}} if signature else {}


def without_state(extra: Extra | None) -> Extra | None:
    """Extra data without that state."""
    own = {key: value for key, value in (extra or {}).get(_PROTOCOL, {}).items() if key != _STATE}
    made: Extra = {key: value for key, value in (extra or {}).items() if key != _PROTOCOL}
    return {**made, **({_PROTOCOL: own} if own else {})} or None
