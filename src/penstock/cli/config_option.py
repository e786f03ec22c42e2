"""`--config`, the same for every command: one option, one order of files, one rule of trust."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock.gateway.config import GatewayConfig

HELP = "the configuration (default: the file of PENSTOCK_CONFIG, else ./penstock.toml if it is harmless or trusted)"


def add_config_option(parser: ArgumentParser) -> None:
    """Describe the option."""
    parser.add_argument("--config", metavar="FILE", type=Path, help=HELP)


def load_config(options: Namespace) -> GatewayConfig:
    """Read the configuration that the command line, the environment or the current folder names."""
    from penstock.gateway.config import load

    return load(options.config, os.environ)
