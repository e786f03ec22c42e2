"""`Displayed` gives answers, runs and streams their displays. What draws them is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from penstock._client.timeline import Timeline


def load_display() -> Any:
    """Returns the module `display`. A program that shows nothing does not load it."""
    return import_module("penstock._client.display")


class Displayed:
    """The displays of a class. A subclass says what they show with `_timeline`."""

    __slots__ = ()

    def _timeline(self) -> Timeline:
        raise NotImplementedError

    def __repr__(self) -> str:
        line: str = load_display().render_line(self._timeline())
        return line

    def _repr_html_(self) -> str:
        html: str = load_display().render_html(self._timeline())
        return html

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        display, timeline = load_display(), self._timeline()
        bundle: dict[str, str] = {
            "text/html": display.render_html(timeline),
            "text/plain": display.render_line(timeline),
        }
        return {
            name: text
            for name, text in bundle.items()
            if (include is None or name in include) and (exclude is None or name not in exclude)
        }

    def __rich_console__(self, console: object, options: object) -> Iterator[Any]:
        lines: Iterator[Any] = load_display().render_rich(self._timeline())
        return lines
