"""The options of a conversion, and what their values must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, get_args

from penstock._messages import call_pairing, content_rules
from penstock._option_checks import (
    COUNT_OR_NONE,
    FLAG,
    FUNCTION,
    MAPPING_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    Option,
    instance_of,
    object_with,
    one_of,
    optional,
    options_of,
)
from penstock._providers.thinking import Thinking
from penstock._request_profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock import request as rq
    from penstock._messages.call_pairing import Orphans
    from penstock._messages.content_rules import Images
    from penstock.stores import ReasoningStore


class ConvertOptions(TypedDict, total=False):
    """All options are optional. docs/messages.md describes them."""

    profile: Profile | None
    quirks: Any
    model: str
    images: Images
    orphans: Orphans
    prompt_caching: bool
    context_management: bool
    overflow: bool
    strict: bool
    max_input: int | None
    max_output: int | None
    thinking: Thinking | None
    count: Callable[[rq.Message], int]
    store: ReasoningStore | None
    tenant: str
    state: Mapping[str, bytes]
    call_id_prefix: str | None
    renamed: bool


CHECKS: dict[str, Option] = {
    "profile": optional(instance_of("a Profile", Profile)),
    "model": TEXT,
    "images": one_of(get_args(content_rules.Images)),
    "orphans": one_of(get_args(call_pairing.Orphans)),
    "prompt_caching": FLAG,
    "context_management": FLAG,
    "overflow": FLAG,
    "strict": FLAG,
    "thinking": optional(instance_of("Thinking", Thinking)),
    "max_input": COUNT_OR_NONE,
    "max_output": COUNT_OR_NONE,
    "count": FUNCTION,
    "store": optional(object_with("get", "put")),
    "tenant": TEXT,
    "state": MAPPING_OR_NONE,
    "call_id_prefix": TEXT_OR_NONE,
    "renamed": FLAG,
}
OPTIONS = options_of(ConvertOptions, CHECKS)
