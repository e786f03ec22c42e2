"""Provider options of the AI SDK, in which a message, part or tool holds what has no field. Both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock._aisdk import PENSTOCK, SDK, read_metadata, write_metadata
from penstock._request_writer import FOREIGN_FIELDS, RequestDraft, split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from penstock._lenient_fields import Object
    from penstock.events import Extra

OPTIONS, METADATA = "providerOptions", "providerMetadata"
# the keys of provider options by protocol: today's, and those of version 4
OPTION_KEYS = {SDK: (OPTIONS, METADATA, "experimental_providerMetadata"), "uistream": (METADATA,)}
_CACHE_KEYS = ("cacheControl", "cache_control")
_CACHE_PROVIDER = "anthropic"  # every version has the cache hints under this provider's name
# fields under our key that are not extra data
_KEYS = "content detail extra failed form id item json name"
_OWN_KEYS = frozenset(f"{_KEYS} namespace opaque opaques partial ran refusal settings sizes usage".split())


class HasExtra(Protocol):
    """A part, message or tool with extra data."""

    extra: Extra | None


class HasCache(HasExtra, Protocol):
    """A part or tool that also has a cache hint."""

    cache: str


class OptionFields(NamedTuple):
    """The contents of provider options: state of protocols, our fields, the cache lifetime, the spelling."""

    extra: Extra
    ours: Object
    cache: str
    marks: Object


_NO_OPTIONS = OptionFields({}, {}, "", {})


def read_options(source: Object, keys: tuple[str, ...] = OPTION_KEYS[SDK]) -> OptionFields:
    """Reads the provider options of a message, part or tool. The first of the keys is the usual one."""
    key = next((key for key in keys if source.get(key) is not None), "")
    if not key:
        return _NO_OPTIONS
    options = strict.get_object(source, key)
    for provider, value in options.items():
        if not isinstance(value, dict):
            raise BadRequest("an object", value, provider).at(key)
    cache, hint, rest = _read_cache_hint(options)
    ours = lenient.get_object(rest, PENSTOCK)
    state = strict.pick_provider_state(lenient.get_object(ours, "extra"))
    extra = read_metadata({**rest, PENSTOCK: {"extra": state}} if ours else rest, reasoning=True)
    for provider in [name for name, value in rest.items() if not value]:
        extra.setdefault(SDK, {}).setdefault("metadata", {})[provider] = {}
    unknown = {key: value for key, value in ours.items() if key not in _OWN_KEYS}
    if "extra" in ours and ours["extra"] != state:
        unknown["extra"] = ours["extra"]
    marks = {"options": "" if key == keys[0] else key, "hint": hint, "no_options": not options, "ours": unknown}
    return OptionFields(extra, ours, cache, {key: value for key, value in marks.items() if value})


def _read_cache_hint(options: Object) -> tuple[str, str, Object]:
    """Returns the cache lifetime, its spelling if unusual, and the options without the hint."""
    fields = lenient.get_object(options, _CACHE_PROVIDER)
    key = next((key for key in _CACHE_KEYS if key in fields), "")
    hint = lenient.get_object(fields, key)
    ttl = hint.get("ttl", "5m")
    if not key or hint.get("type") != "ephemeral" or not isinstance(ttl, str) or hint.keys() - {"type", "ttl"}:
        return "", "", options
    rest = {**options, _CACHE_PROVIDER: strict.unknown_fields(fields, {key})}
    if not rest[_CACHE_PROVIDER]:
        del rest[_CACHE_PROVIDER]
    spelling = key if key != _CACHE_KEYS[0] else "ttl" if hint.get("ttl") == "5m" else ""
    return ttl, spelling, rest


def write_options(
    extra: Extra | None, marks: Object, *, cache: str = "", option_key: str = OPTIONS, protocol: str = SDK, **ours: Any
) -> Object:
    """Returns the field of provider options, if there are any. `protocol` is the one that writes."""
    options: Object = {}
    ours = {**marks.get("ours", {}), **{key: value for key, value in ours.items() if value}}
    if extra:
        others = strict.pick_provider_state(
            {key: fields for key, fields in extra.items() if key not in (SDK, protocol)}
        )
        if SDK in extra:
            others[SDK] = extra[SDK]
        options = write_metadata(others, reasoning=True)
    if ours:
        options[PENSTOCK] = {**options.get(PENSTOCK, {}), **ours}
    if cache:
        spelling = marks.get("hint", "")
        hint = {"type": "ephemeral", **({} if cache == "5m" and spelling != "ttl" else {"ttl": cache})}
        key = spelling if spelling in _CACHE_KEYS else _CACHE_KEYS[0]
        options[_CACHE_PROVIDER] = {**options.get(_CACHE_PROVIDER, {}), key: hint}
    return {marks.get("options") or option_key: options} if options or marks.get("no_options") else {}


def report_foreign_fields(draft: RequestDraft, extra: Extra | None) -> None:
    """Reports fields of other protocols that are not written: all but provider state."""
    for protocol, fields in (extra or {}).items():
        names = [key for key in fields if key != "_" and key not in strict.PROVIDER_STATE]
        if names and protocol not in (SDK, draft.protocol):
            draft.diagnostics.add(
                "loss-extra", f"{draft.protocol}: {FOREIGN_FIELDS.format(protocol, ', '.join(names))}"
            )


def build_part_extra(protocol: str, options: OptionFields, rest: Object, **marks: Any) -> Extra | None:
    """Builds a part's extra data: its state, and under the protocol's name unknown fields and spelling."""
    all_marks = {**options.marks, **{key: value for key, value in marks.items() if value}}
    fields = {**({"rest": rest} if rest else {}), **({"_": all_marks} if all_marks else {})}
    if fields:
        return {**options.extra, protocol: {**options.extra.get(protocol, {}), **fields}}
    return options.extra or None


def read_extra_fields(
    target: HasCache,
    source: Object,
    known: AbstractSet[str],
    protocol: str = SDK,
    option_keys: tuple[str, ...] = (),
    **marks: Any,
) -> Object:
    """Sets a part's extra data and cache hint from options, unknown fields, nulls and spelling. Returns our fields."""
    option_keys = option_keys or OPTION_KEYS[protocol]
    if source.keys() <= known and None not in source.values() and not any(marks.values()):
        return {}
    options = read_options(source, option_keys)
    rest = {
        key: value for key, value in source.items() if value is None or (key not in known and key not in option_keys)
    }
    target.extra = build_part_extra(protocol, options, rest, **marks)
    target.cache = options.cache
    return options.ours


def add_extra(target: HasExtra, protocol: str = SDK, **fields: Any) -> None:
    """Adds fields to a part's extra data of a protocol."""
    extra = target.extra or {}
    target.extra = {**extra, protocol: {**extra.get(protocol, {}), **fields}}


def write_extra_fields(
    part: HasCache, protocol: str = SDK, option_key: str = "", **ours: Any
) -> tuple[Object, Object, Object]:
    """Returns a part's further fields, the protocol's extra data, and its marks."""
    if part.extra is None and not part.cache and not any(ours.values()):
        return {}, {}, {}
    own_fields, marks = split_extra(part.extra, protocol)
    option_key = option_key or OPTION_KEYS[protocol][0]
    options = write_options(part.extra, marks, cache=part.cache, option_key=option_key, protocol=protocol, **ours)
    return {**own_fields.get("rest", {}), **options}, own_fields, marks
