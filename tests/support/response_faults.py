"""A store of responses that takes none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.gateway import Running


@contextmanager
def responses_that_cannot_be_put(running: Running) -> Generator[None]:
    def fail(*_: Any) -> None:
        raise OSError("no room")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(running.app.services.response_store, "put", fail)
        yield
