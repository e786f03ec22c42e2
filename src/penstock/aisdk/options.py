"""Provider options of requests ↔ extra data, cache hints, and words of our own.

What a stream calls provider metadata comes back in requests as provider options, on messages, parts and tools alike.
Leans on `words` for the pairs of names. Marks of how another protocol spelled something are never sent along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock import pick, reading
from penstock.aisdk.words import OURS, SDK, read_metadata, write_metadata
from penstock.errors import BadRequest
from penstock.writing import FOREIGN, split

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from penstock.events import Extra
    from penstock.pick import Object
    from penstock.writing import Draft

OPTIONS, METADATA = "providerOptions", "providerMetadata"
WORDS = (OPTIONS, METADATA, "experimental_providerMetadata")  # today's, and those of version 4
CACHE = ("cacheControl", "cache_control")
CACHER = "anthropic"  # under whose name every version's cache hints stand
# words of our own that become something else than extra data
TAKEN = frozenset({
    "content", "detail", "extra", "failed", "form", "id", "item", "json", "name", "namespace", "opaque", "opaques",
    "partial", "ran", "refusal", "settings", "sizes", "usage",
})  # fmt: skip


class Noting(Protocol):
    """What has extra data: a part, a message, a tool."""

    extra: Extra | None


class Dressed(Noting, Protocol):
    """What has a cache hint too."""

    cache: str


class Noted(NamedTuple):
    """What provider options say: state of protocols, our own words, how long to cache, how it was spelled."""

    extra: Extra
    ours: Object
    cache: str
    marks: Object


NOTHING = Noted({}, {}, "", {})


def read_options(source: Object, words: tuple[str, ...] = WORDS) -> Noted:
    """The provider options of a message, a part or a tool. The first of the words is the usual one."""
    word = next((word for word in words if source.get(word) is not None), "")
    if not word:
        return NOTHING
    given = reading.table(source, word)
    for provider, value in given.items():
        if not isinstance(value, dict):
            raise BadRequest("an object", value, provider).at(word)
    cache, hint, left = _cached(given)
    ours = pick.table(left, OURS)
    state = reading.state(pick.table(ours, "extra"))
    extra = read_metadata({**left, OURS: {"extra": state}} if ours else left, reasoning=True)
    for provider in [name for name, value in left.items() if not value]:
        extra.setdefault(SDK, {}).setdefault("metadata", {})[provider] = {}
    odd = {key: value for key, value in ours.items() if key not in TAKEN}
    if "extra" in ours and ours["extra"] != state:
        odd["extra"] = ours["extra"]
    spelled = {"options": "" if word == words[0] else word, "hint": hint, "no_options": not given, "ours": odd}
    return Noted(extra, ours, cache, {key: value for key, value in spelled.items() if value})


def _cached(given: Object) -> tuple[str, str, Object]:
    """A cache hint, how it was spelled if oddly, and the options without it."""
    own = pick.table(given, CACHER)
    word = next((word for word in CACHE if word in own), "")
    hint = pick.table(own, word)
    ttl = hint.get("ttl", "5m")
    if not word or hint.get("type") != "ephemeral" or not isinstance(ttl, str) or hint.keys() - {"type", "ttl"}:
        return "", "", given
    left = {**given, CACHER: {key: value for key, value in own.items() if key != word}}
    if not left[CACHER]:
        del left[CACHER]
    odd = word if word != CACHE[0] else "ttl" if hint.get("ttl") == "5m" else ""
    return ttl, odd, left


def write_options(
    extra: Extra | None, marks: Object, *, cache: str = "", word: str = OPTIONS, own: str = SDK, **ours: Any
) -> Object:
    """The field of provider options, if there is anything to say. `own` is the protocol that writes."""
    found: Object = {}
    ours = {**marks.get("ours", {}), **{key: value for key, value in ours.items() if value}}
    if extra:
        others = reading.state({key: fields for key, fields in extra.items() if key not in (SDK, own)})
        if SDK in extra:
            others[SDK] = extra[SDK]
        found = write_metadata(others, reasoning=True)
    if ours:
        found[OURS] = {**found.get(OURS, {}), **ours}
    if cache:
        odd = marks.get("hint", "")
        hint = {"type": "ephemeral", **({} if cache == "5m" and odd != "ttl" else {"ttl": cache})}
        found[CACHER] = {**found.get(CACHER, {}), odd if odd in CACHE else CACHE[0]: hint}
    return {marks.get("options") or word: found} if found or marks.get("no_options") else {}


def report(draft: Draft, extra: Extra | None) -> None:
    """Say which fields of others are neither said nor carried: all but a provider's state."""
    for protocol, fields in (extra or {}).items():
        names = [key for key in fields if key != "_" and key not in reading.STATE]
        if names and protocol not in (SDK, draft.protocol):
            draft.diagnostics.add("loss-extra", f"{draft.protocol}: {FOREIGN.format(protocol, ', '.join(names))}")


def kept(protocol: str, noted: Noted, rest: Object, **marks: Any) -> Extra | None:
    """The extra data of a part: its state, and under the protocol's name its unknown fields and how it was spelled."""
    spelled = {**noted.marks, **{key: value for key, value in marks.items() if value}}
    own = {**({"rest": rest} if rest else {}), **({"_": spelled} if spelled else {})}
    if own:
        return {**noted.extra, protocol: {**noted.extra.get(protocol, {}), **own}}
    return noted.extra or None


def dress(
    made: Dressed, source: Object, known: AbstractSet[str], words: tuple[str, ...] = WORDS, protocol: str = SDK,
    **marks: Any,
) -> Object:  # fmt: skip
    """Give a part everything that its known fields do not say: options, unknown fields, nulls, spelling.

    What comes back are words of our own among the options.
    """
    if source.keys() <= known and None not in source.values() and not any(marks.values()):
        return {}
    noted = read_options(source, words)
    rest = {key: value for key, value in source.items() if value is None or (key not in known and key not in words)}
    made.extra = kept(protocol, noted, rest, **marks)
    made.cache = noted.cache
    return noted.ours


def note(made: Noting, protocol: str = SDK, **fields: Any) -> None:
    """Add to a part's extra data of a protocol."""
    extra = made.extra or {}
    made.extra = {**extra, protocol: {**extra.get(protocol, {}), **fields}}


def undressed(part: Dressed, *, word: str = OPTIONS, protocol: str = SDK, **ours: Any) -> tuple[Object, Object, Object]:
    """A part's further fields, its own extra data, and its marks."""
    if part.extra is None and not part.cache and not any(ours.values()):
        return {}, {}, {}
    own, marks = split(part.extra, protocol)
    options = write_options(part.extra, marks, cache=part.cache, word=word, own=protocol, **ours)
    return {**own.get("rest", {}), **options}, own, marks
