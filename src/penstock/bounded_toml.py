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

# As many parts with a dot behind each. A part begins where no other does, so that no text is searched twice.
_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|'[^'\n]*+')[ \t]*+\.[ \t]*+){%d}""" % MAX_TOML_KEY_PARTS  # noqa: UP031
)


def read_toml(data: bytes, where: str) -> tuple[str, dict[str, Any]]:
    """The text of a file, and its tables. Raises `InputError`; for text that is not TOML, what `tomllib` raises."""
    if len(data) > MAX_TOML_BYTES:
        raise InputError(f"{where}: the file has {len(data)} bytes; at most {MAX_TOML_BYTES} are read. Make it shorter")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not TOML: byte {error.start} is not UTF-8") from None
    found = _LONG_KEY.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
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
