"""The functions that read and write the requests of a protocol, by its name. Modules are loaded when asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import codec
from penstock.errors import InputError, PenstockError, TooDeep, UnknownProtocol
from penstock.messages.content import Holding
from penstock.messages.identifiers import PLAIN, Rule
from penstock.messages.turns import Empty, System
from penstock.protocols import MODULES, request_module
from penstock.shaping.namespace import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.writing import Draft, Losses

USERS = frozenset({"user", "tool"})
ANYTHING = Rule()
# For calls that no Gemini model made. Google's two APIs document two values; this one works at both:
# https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures
UNSIGNED = "skip_thought_signature_validator"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A target's demands. `quirks` are handed to its writer; `provider` is the key of the options that are its own."""

    protocol: str
    provider: str = ""
    options: tuple[str, ...] = ()  # other keys of options that are its own
    ids: Rule = ANYTHING
    names: Rule = ANYTHING
    answers: bool = True  # results say the names of their tools
    custom: bool = False  # tools of free text
    namespaces: bool = False  # tools in groups
    system: System = "keep"  # what becomes of system messages inside the conversation
    alternate: bool = False  # no two messages of one role in a row
    opens: bool = False  # the user speaks first
    empty: Empty = "keep"  # what becomes of messages with nothing in them
    holding: Holding = Holding()
    addresses: bool = True  # it takes files by their http(s) address
    points: int = 0  # cache points that may be set; 0 where caching needs none
    min_output: int = 0
    inside: bool = False  # a budget for reasoning counts against the output limit
    trims: bool = False  # a last turn of the assistant must not end with white space
    signature: str = ""  # what stands for a thought signature that is not known, for models that insist on one
    thinking: tuple[str, ...] = ()  # forms of reasoning settings that can be written; none: the provider converts them
    quirks: Any = None
    # and what it does as a client
    prefills: bool = False  # by a last turn of the assistant it means the beginning of the answer
    leads: bool = False  # it has no system role, and lets the assistant say the system prompt
    prefix: str = ""  # what its call ids begin with
    reserved: str = ""  # what it appends to them


PROFILES: dict[str, Profile] = {
    row.protocol: row
    for row in (
        Profile(
            protocol="openai-chat", provider="openai", ids=Rule(limit=40), names=PLAIN, answers=False, custom=True,
            thinking=("effort", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="responses", provider="openai", ids=Rule(limit=64), names=PLAIN, answers=False, custom=True,
            namespaces=True, thinking=("effort", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="anthropic", provider="anthropic", ids=PLAIN, names=PLAIN, answers=False, opens=True, empty="drop",
            points=4, min_output=1, inside=True, thinking=("adaptive", "budget", "none"), holding=Holding(USERS),
            trims=True, prefills=True,
        ),
        Profile(
            protocol="gemini", provider="google", options=("gemini",), opens=True, empty="drop",
            names=Rule("A-Za-z0-9_.:-", limit=64, first="A-Za-z_"), thinking=("level", "budget", "none"),
            holding=Holding(USERS | {"assistant"}), prefills=True, signature=UNSIGNED,
        ),
        Profile(
            protocol="bedrock", provider="bedrock", options=("amazon-bedrock",), ids=PLAIN, names=PLAIN, answers=False,
            opens=True, alternate=True, empty="drop", points=4, inside=True,
            thinking=("adaptive", "budget", "effort", "none"), holding=Holding(USERS), addresses=False, trims=True,
            prefills=True,
        ),
        Profile(
            protocol="cohere", provider="cohere", names=Rule("A-Za-z0-9_", limit=64, first="A-Za-z_"), empty="drop",
            thinking=("budget", "none"), holding=Holding(USERS),
        ),
        Profile(
            protocol="ollama", provider="ollama", thinking=("effort",), holding=Holding(USERS), addresses=False,
            prefills=True,
        ),
        Profile(protocol="aisdk", holding=Holding(USERS)),
        Profile(protocol="vscode", leads=True, prefix=PREFIX, reserved="__vscode"),
    )
}  # fmt: skip


def profile_of(protocol: str) -> Profile:
    """The row of a protocol; one that demands nothing where there is none."""
    name = protocol.partition("@")[0]
    return PROFILES.get(name) or Profile(protocol=name)


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
