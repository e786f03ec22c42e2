"""What the commands read: a file or standard input, and settings of the form `key=value`.

Leans on nothing but the standard library until a setting has to be typed. Errors are `InputError`s or the system's own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Generator, Iterable, Iterator
    from io import BufferedReader

    from penstock._diagnostics import Diagnostic
    from penstock._gateway.config import GatewayConfig

READ_BYTES = 64 * 1024


def add_source_options(parser: ArgumentParser) -> None:
    """The arguments of every command that reads a stream."""
    from penstock._framing.frame import LIMIT
    from penstock._protocols import MODULES

    names = ", ".join(sorted(MODULES))
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the stream; - or nothing: standard input")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PROTOCOL",
        default="auto",
        help=f"what the stream speaks: {names}; auto finds out (default)",
    )
    parser.add_argument(
        "--framing",
        metavar="FRAMING",
        default="auto",
        help="how it is framed: sse, ndjson, jsonarray, eventstream; auto finds out (default)",
    )
    parser.add_argument(
        "--limit",
        metavar="BYTES",
        type=int,
        default=LIMIT,
        help=f"the most that one frame may have ({LIMIT >> 20} MiB by default)",
    )
    parser.add_argument(
        "--from-option",
        dest="source_options",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of the decoder; may be given more than once",
    )
    parser.add_argument(
        "--option",
        dest="target_options",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of the encoder, such as model=mine; may be given more than once",
    )


@contextmanager
def open_input(name: str) -> Generator[BufferedReader]:
    """The named file, or standard input for `-`."""
    if name == "-" and sys.stdin.isatty():
        print("penstock: reading from the terminal; Ctrl-D ends it", file=sys.stderr)
    with open(sys.stdin.fileno() if name == "-" else name, "rb", closefd=name != "-") as file:
        yield file


def read_chunks(file: BufferedReader) -> Iterator[bytes]:
    """What there is to read as soon as it is there; an input without a single byte is an error."""
    chunk = file.read1(READ_BYTES)
    if not chunk:
        from penstock.errors import InputError

        raise InputError("the input is empty")
    while chunk:
        yield chunk
        chunk = file.read1(READ_BYTES)


def is_stream(events: Iterable[Any], findings: Iterable[Diagnostic]) -> bool:
    """Whether the input is a stream at all: garbage makes no events, but for the fault at its end."""
    from penstock.events import Fault, Start

    garbage = any(row.code == "malformed" for row in findings)
    return not garbage or any(
        event.kind != "truncated" if type(event) is Fault else type(event) is not Start for event in events
    )


def parse_codec_options(pairs: Iterable[str], make: Callable[..., Any] | None) -> dict[str, Any]:
    """`key=value` pairs as the keyword arguments of a codec, each of the type that the codec wants."""
    from penstock.errors import InputError

    given: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"an option is KEY=VALUE, not {pair!r}")
        given[key.replace("-", "_")] = value
    if not given:
        return {}
    wanted = _option_types(make)
    for key, value in given.items():
        if key not in wanted:
            raise InputError(f"unknown option {key!r}; there is: {', '.join(sorted(wanted)) or 'none'}")
        given[key] = _convert_option(key, value, wanted[key])
    return given


def _option_types(make: Callable[..., Any] | None) -> dict[str, Any]:
    """The keyword arguments of a codec and their types."""
    import inspect
    from typing import get_type_hints

    if make is None:
        return {}
    init = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    names = [name for name, row in inspect.signature(make).parameters.items() if row.kind is row.KEYWORD_ONLY]
    try:
        hints = get_type_hints(init)
    except NameError:  # a type that is imported for type checkers only
        hints = {name: _TYPES.get(str(note), Any) for name, note in init.__annotations__.items()}
    return {name: hints.get(name, Any) for name in names}


_TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "int | None": int | None,
    "Collection[str]": tuple[str, ...],
    "str | None": str,
}


def _convert_option(key: str, value: str, type: Any) -> Any:
    import msgspec

    from penstock.errors import InputError

    given: Any = value.split(",") if type == tuple[str, ...] else value
    try:
        return msgspec.convert(given, type, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"option {key}={value}: {error}") from error
    except TypeError as error:
        raise InputError(f"option {key!r} cannot be given on the command line") from error


CONFIG_HELP = (
    "the configuration (default: the file of PENSTOCK_CONFIG, else ./penstock.toml if it is harmless or trusted)"
)


def add_config_option(parser: ArgumentParser) -> None:
    """Describe the option."""
    parser.add_argument("--config", metavar="FILE", type=Path, help=CONFIG_HELP)


def load_config(options: Namespace) -> GatewayConfig:
    """Read the configuration that the command line, the environment or the current folder names."""
    from penstock._gateway.config import load_config

    return load_config(options.config, os.environ)


PROGRAM = "penstock"


def find_command() -> str:
    """`penstock` if a shell finds this very program by that name, else the path that it was started by.

    `make serve` starts `.venv/bin/penstock`, which the shell that reads the hints does not find.
    """
    started, found = Path(sys.argv[0]), shutil.which(PROGRAM)
    if started.name == "__main__.py" and started.parent.name == PROGRAM:
        return PROGRAM if found else f"{_relative_path(sys.executable)} -m {PROGRAM}"
    if started.stem != PROGRAM or not started.exists():  # called by another program, or by its name
        return PROGRAM
    return PROGRAM if found and Path(found).resolve() == started.resolve() else _relative_path(sys.argv[0])


def _relative_path(path: str) -> str:
    """The path from the current folder if it lies inside, as a shell reads it. Links are not followed."""
    whole = os.path.abspath(path)  # noqa: PTH100 — `Path.resolve` would leave a virtual environment by its links
    here = os.getcwd()  # noqa: PTH109
    inside = os.path.commonpath([whole, here]) == here
    return shlex.quote(os.path.relpath(whole, here) if inside else whole)
