"""The platforms for which VS Code knows packages of their own, and which of them this machine is."""

from __future__ import annotations

import platform
import sys
import sysconfig

# As `vsce package --target` names them. linux-armhf and alpine-arm64 use the plain package.
TARGETS = ("linux-x64", "linux-arm64", "alpine-x64", "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64")
_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def this_target() -> str:
    """Returns the name of the platform that this Python runs on. Raises LookupError for one without a package."""
    return target_of(sys.platform, platform.machine(), musl="musl" in (sysconfig.get_config_var("SOABI") or ""))


def target_of(system: str, machine: str, *, musl: bool = False) -> str:
    """Returns the name of a platform. Raises LookupError for one without a package."""
    name = f"{'alpine' if musl and system == 'linux' else system}-{_PROCESSORS.get(machine.lower(), machine)}"
    if name not in TARGETS:
        raise LookupError(f"there is no package for {name}")
    return name


def executable_name(target: str) -> str:
    """Returns the file name of the executable."""
    return "penstock.exe" if target.startswith("win32") else "penstock"
