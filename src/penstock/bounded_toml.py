"""Reads TOML that somebody else has written, within limits that `tomllib` does not have.

The time that it takes grows with the square of the parts of a dotted key: 20,000 parts take 23 s. So the text is looked
at first.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from penstock.errors import InputError
from penstock.input_limits import MAX_TOML_BYTES, MAX_TOML_KEY_PARTS

# What a line is made of. A quote that is never closed goes to the end of the line.
_TOKEN = re.compile(
    r"""(?P<part>[\w-]++|"[^"\\]*+(?:\\.[^"\\]*+)*"?|'[^']*+'?)|(?P<dot>\.)|(?P<space>[ \t]++)|(?P<other>.)""",
    re.DOTALL,
)


def read_toml(data: bytes, where: str) -> tuple[str, dict[str, Any]]:
    """The text of a file, and its tables. Raises `InputError`; for text that is not TOML, what `tomllib` raises."""
    if len(data) > MAX_TOML_BYTES:
        raise InputError(f"{where}: the file has {len(data)} bytes; at most {MAX_TOML_BYTES} are read. Make it shorter")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not TOML: byte {error.start} is not UTF-8") from None
    line = next((number for number, row in enumerate(text.split("\n"), 1) if _has_long_key(row)), 0)
    if line:
        said = f"a key of more than {MAX_TOML_KEY_PARTS} dotted parts: remove it, no setting has so many"
        raise InputError(f"{where}:{line}: not a configuration: {said}")
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise InputError(f"{where}: not a configuration: it nests too deep") from None
    except ValueError:  # Python reads integers of up to 4300 digits
        raise InputError(f"{where}: not a configuration: an integer has too many digits") from None


def _has_long_key(line: str) -> bool:
    """Whether a line has a key of too many parts with a dot behind each. Takes time in proportion to the line."""
    if line.count(".") < MAX_TOML_KEY_PARTS:
        return False
    dots = 0
    for token in _TOKEN.finditer(line):
        if token.lastgroup == "dot":
            dots += 1
            if dots >= MAX_TOML_KEY_PARTS:
                return True
        elif token.lastgroup == "other":
            if token[0] == "#":
                return False
            dots = 0
    return False
