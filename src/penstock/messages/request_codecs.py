"""The functions that read and write the requests of a protocol, by its name. Modules are loaded when asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock import codec
from penstock.errors import InputError, PenstockError, TooDeep, UnknownProtocol
from penstock.protocols import MODULES, request_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.writing import Draft, Losses


def reader(name: str) -> Callable[[Object], rq.Request]:
    """The function that reads a protocol's requests."""
    return _reader(name)


@lru_cache(maxsize=64)
def _reader(name: str) -> Callable[[Object], rq.Request]:
    read: Callable[[Object], rq.Request] = getattr(_module(name, "read"), "read_request")  # noqa: B009 — of Any

    def guarded(body: Object) -> rq.Request:
        try:
            return read(body)
        except PenstockError:
            raise
        except codec.ILL_SHAPED as error:
            raise typed_error(error) from error

    return guarded


def writer(name: str) -> Callable[[rq.Request, Any], Draft]:
    """The function that writes a protocol's requests."""
    write: Callable[[rq.Request, Any], Draft] = getattr(_module(name, "write"), "write_request")  # noqa: B009 — of Any
    return write


def quirks_type(name: str) -> Any:
    """The Struct of a writer's quirks; None where it has none."""
    return getattr(_module(name, "write"), "Quirks", None)


def losses(name: str) -> Losses:
    """What a protocol's requests cannot say, or cannot with some providers; and what happens instead."""
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


def typed_error(error: Exception) -> Exception:
    """The error that a caller gets for one that nobody meant him to get."""
    if codec.STRICT:
        raise error
    if isinstance(error, RecursionError):  # plain objects, whose depth nobody has checked
        return TooDeep()
    return InputError("the request could not be converted: something in it has an unexpected shape")
