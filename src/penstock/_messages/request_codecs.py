"""The request reader, request writer and profile of a protocol, by its name. Modules load when first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock import _codec as codec
from penstock import request as rq
from penstock._protocols import MODULES, protocol, request_module
from penstock._request_profile import Profile
from penstock.errors import InputError, PenstockError, TooDeep, UnknownProtocol

if TYPE_CHECKING:
    from penstock._diagnostics import Losses
    from penstock._lenient_fields import Object
    from penstock._request_writer import RequestDraft


class _Profiles(Mapping[str, Profile]):
    """The profiles of the protocols that have one. A protocol is imported when its profile is first used."""

    def __getitem__(self, name: str) -> Profile:
        profile = protocol(name).profile if name in MODULES else None
        if profile is None:
            raise KeyError(name)
        return profile

    def __iter__(self) -> Iterator[str]:
        return (name for name in MODULES if protocol(name).profile is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PROFILES: Mapping[str, Profile] = _Profiles()


@lru_cache(maxsize=64)
def profile_of(protocol: str) -> Profile:
    """Returns a protocol's profile; an empty one if the protocol has none."""
    name = protocol.partition("@")[0]
    return PROFILES.get(name) or Profile(protocol=name)


@lru_cache(maxsize=64)
def reader(name: str) -> Callable[[Object], rq.Request]:
    """Returns the function that reads a protocol's requests."""
    read: Callable[[Object], rq.Request] = getattr(_module(name, "read"), "read_request")  # noqa: B009 — of Any

    def read_guarded(body: Object) -> rq.Request:
        with typed_errors:
            return read(body)

    return read_guarded


def writer(name: str) -> Callable[[rq.Request, Any], RequestDraft]:
    """Returns the function that writes a protocol's requests."""
    write: Callable[[rq.Request, Any], RequestDraft] = getattr(_module(name, "write"), "write_request")  # noqa: B009 — of Any
    return write


def quirks_type(name: str) -> Any:
    """Returns the Struct of a writer's quirks; None if it has none."""
    return getattr(_module(name, "write"), "Quirks", None)


def losses(name: str) -> Losses:
    """Returns what a protocol's requests cannot express, and what happens instead."""
    found = _module(name, "write")
    return {**found.LOSSES, **getattr(found, "LACKS", {})}


@lru_cache(maxsize=64)
def _module(name: str, direction: str) -> Any:
    bare = name.partition("@")[0]
    module = request_module(bare, direction) if bare in MODULES else None
    if module is None:
        known = [known for known in MODULES if request_module(known, direction)]
        raise UnknownProtocol(name, known, "protocol of requests")
    return import_module(module)


class _TypedErrors:
    """Raises an `InputError` for exceptions that a request of an unexpected shape causes."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, codec.ILL_SHAPED) or isinstance(error, PenstockError) or codec.STRICT:
            return
        if isinstance(error, RecursionError):  # objects, whose depth is not checked before
            raise TooDeep from error
        raise InputError("the request could not be converted: something in it has an unexpected shape") from error


typed_errors = _TypedErrors()  # has no state, so that one serves all
