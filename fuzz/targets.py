"""The list of all targets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fuzz import framing_targets, gateway_targets, http_targets, request_targets, stream_targets, text_targets

if TYPE_CHECKING:
    from fuzz.target import Target


@cache
def targets() -> dict[str, Target]:
    """Every target by its name."""
    streams = [*stream_targets.targets(), *framing_targets.targets()]
    others = (request_targets, http_targets, gateway_targets, text_targets)
    return {target.name: target for target in [*streams, *(one for module in others for one in module.targets())]}


def chosen(names: list[str]) -> list[Target]:
    """The targets whose names begin so; all of them where no name is given."""
    found = [one for name, one in targets().items() if not names or any(name.startswith(begin) for begin in names)]
    if not found:
        raise SystemExit(f"no target begins with {' or '.join(names)}; there are: {', '.join(targets())}")
    return found
