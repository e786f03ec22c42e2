"""What `penstock serve --check` says of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomlkit

from tests.cli.command_runner import inside

if TYPE_CHECKING:
    from pathlib import Path


def check_config(folder: Path, tables: dict[str, Any], **env: str) -> list[str]:
    """Returns a line for each problem, without the place in the file."""
    file = folder / "penstock.toml"
    file.write_text(tomlkit.dumps(tables), encoding="utf-8")
    variables: dict[str, Any] = {"PENSTOCK_DATA": str(folder), **env}
    done = inside("serve", "--check", "--config", str(file), **variables)
    lines = [*done.stdout.decode().splitlines(), *done.stderr.decode().splitlines()]
    assert done.returncode in (0, 1), lines
    told = [line.partition(": ")[2] for line in lines if line.startswith((str(file), "environment"))]
    told = [line for line in told if line != "nothing is wrong with it"]
    assert bool(told) == bool(done.returncode), lines
    return told
