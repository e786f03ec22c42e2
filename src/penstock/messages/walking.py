"""Going through a request's parts: what is not changed is not copied, and nothing given is ever written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from penstock import request as rq


def change_parts(
    messages: list[rq.Message], kinds: AbstractSet[type], change: Callable[[Any], Any]
) -> list[rq.Message]:
    """The messages with each part of these kinds changed; None leaves it out. The same list if nothing changed."""
    made: list[rq.Message] | None = None
    for place, message in enumerate(messages):
        parts = change_list(message.parts, kinds, change)
        if parts is not message.parts:
            made = made or list(messages)
            made[place] = replace(message, parts=parts)
    return made or messages


def change_list(parts: list[Any], kinds: AbstractSet[type], change: Callable[[Any], Any]) -> list[Any]:
    """The parts with each of these kinds changed; the same list if none was."""
    made: list[Any] | None = None
    for place, part in enumerate(parts):
        if type(part) in kinds:
            new = change(part)
            if new is not part:
                made = list(parts) if made is None else made
                made[place] = new
    return parts if made is None else [part for part in made if part is not None]


def with_messages(request: rq.Request, messages: list[rq.Message]) -> rq.Request:
    """The request with other messages; itself if they are the ones it has."""
    return request if messages is request.messages else replace(request, messages=messages)


def without_item_ids(parts: Sequence[Any]) -> list[Any]:
    """Parts without the ids of their items, for a message whose reasoning was left out.

    OpenAI looks items up by their id and answers 400 if the reasoning that belongs to one is missing
    (https://github.com/laravel/ai/pull/1052). Calls and results belong together by the id of the call.
    """
    return [replace(part, item="") if getattr(part, "item", "") else part for part in parts]
