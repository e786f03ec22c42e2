"""Reads the description of a function and of its parameters from a docstring in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_GOOGLE_SECTION = re.compile(
    r"(args|arguments|parameters|params|other parameters|keyword args|keyword arguments|returns?|yields?|raises|"
    r"examples?|notes?|warnings?|see also|references|attributes|todo)\s*+:\s*+$",
    re.IGNORECASE,
)
_PARAMETER_SECTIONS = ("arg", "param", "other param", "keyword")
_GOOGLE_PARAMETER = re.compile(r"\*{0,2}(\w++)\s*+(?:\([^)]*+\)\s*+)?:\s*+(.*)$")
_NUMPY_PARAMETER = re.compile(r"(\*{0,2}\w++(?:\s*+,\s*+\*{0,2}\w++)*+)\s*+(?::.*)?$")
_SPHINX_FIELD = re.compile(r":(\w++)(?:\s++([^:]*+))?:\s*+(.*)$")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SHORTEST_UNDERLINE = 3


class FunctionDescription(NamedTuple):
    """What a docstring says: about the function, and about each parameter."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> FunctionDescription:
    """Returns the descriptions of a docstring. Sections about results, errors and examples are left out."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    parser = _DocstringParser()
    for number, line in enumerate(lines):
        parser.read(line, lines[number + 1] if number + 1 < len(lines) else "")
    return FunctionDescription(_join(parser.text), {name: _join(rows) for name, rows in parser.parameters.items()})


class _DocstringParser:
    """State: the style of the current section, and the parameters that a continued line belongs to."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self._section = ""  # empty, `colons` (Google), `underlines` (NumPy), `fields` (Sphinx), or `skip`
        self._indent = -1  # of the entries of a section
        self._names: list[str] = []

    def read(self, line: str, following: str) -> None:
        stripped = line.strip()
        if _is_underline(stripped) and self._section in ("underlines", "skip"):
            return
        if self._begin_section(line, following) or self._read_field(line):
            return
        if self._section == "fields" and (not stripped or not line[:1].isspace()):
            self._section = ""
        if not self._section:
            self.text.append(stripped)
        elif self._section != "skip" and stripped:
            self._read_entry(stripped, len(line) - len(line.lstrip()))

    def _begin_section(self, line: str, following: str) -> bool:
        """Starts a section at its headline."""
        is_numpy = bool(line.strip()) and not line[:1].isspace() and _is_underline(following.strip())
        is_google = not line[:1].isspace() and _GOOGLE_SECTION.match(line) is not None
        if not is_numpy and not is_google:
            return False
        title = line.strip().rstrip(":").lower()
        style = "underlines" if is_numpy else "colons"
        self._section = style if title.startswith(_PARAMETER_SECTIONS) else "skip"
        self._indent, self._names = -1, []
        return True

    def _read_field(self, line: str) -> bool:
        """Reads a Sphinx field: `:param int count: how many`."""
        field = _SPHINX_FIELD.match(line)
        if field is None:
            return False
        self._section, self._names = "fields", []
        words = (field[2] or "").split()
        if field[1] in _SPHINX_PARAMETERS and words:
            self._open([words[-1].lstrip("*")], field[3])
        return True

    def _read_entry(self, stripped: str, indent: int) -> None:
        self._indent = indent if self._indent < 0 else self._indent
        if self._section == "colons" and indent == 0:
            self._section = "skip"  # text after the section
        elif self._section == "colons" and indent <= self._indent and (found := _GOOGLE_PARAMETER.match(stripped)):
            self._open([found[1]], found[2])
        elif self._section == "underlines" and indent <= self._indent and (found := _NUMPY_PARAMETER.match(stripped)):
            self._open([name.strip().lstrip("*") for name in found[1].split(",")], "")
        else:
            for name in self._names:
                self.parameters[name].append(stripped)

    def _open(self, names: list[str], text: str) -> None:
        self._names = names
        for name in names:
            self.parameters[name] = [text.strip()]


def _is_underline(text: str) -> bool:
    return len(text) >= _SHORTEST_UNDERLINE and not text.strip("-=")


def _join(lines: Iterable[str]) -> str:
    """Joins lines to paragraphs."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())
