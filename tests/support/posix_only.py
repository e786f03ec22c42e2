"""Which test modules need a POSIX system: they are left out on Windows, where they could not be imported or would fail.

Told from the text of a module and of the modules of tests/ that it imports: they use a module, a signal or a server that
Windows does not have. What the package itself does on Windows is tested by the rest.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^ *(?:from (tests\.[\w.]+) import|import (tests\.[\w.]+))", re.MULTILINE)
# What is found in the text, and why it keeps a module from running on Windows.
_NEEDS = {
    r"^ *import (?:fcntl|grp|pty|pwd|resource|termios)\b": "a module of POSIX",
    r"\bsignal\.SIG(?:KILL|HUP|USR1|USR2|STOP|CONT|QUIT)\b": "signals that Windows does not have",
    r"\.send_signal\(|\.stop\(signal\.|os\.kill\(|os\.killpg\(": "a process that ends in order at a signal",
    r"\bos\.(?:fork|getuid|geteuid|getpgid|mkfifo|sched_\w+|umask)\(|start_new_session=True": "processes and users of POSIX",
    r"AF_UNIX|/proc/(?:self|\{|\d)|/dev/(?:null|full|shm)": "sockets and files of POSIX",
    r"\.chmod\(|st_mode\b|symlink_to\(": "modes and links of files",
    r'\["?(?:bash|sh|sha256sum|git)"?,': "programs of POSIX",
    r"\b(?:PostgresServer|RedisServer|NginxServer|PrometheusServer)\b": "servers that are not packaged for Windows",
}


@cache
def posix_reason(file: Path) -> str:
    """Returns why a test module cannot run on Windows, or nothing."""
    return _find_reason(file, set())


def _find_reason(file: Path, seen: set[Path]) -> str:
    seen.add(file)
    text = file.read_text(encoding="utf-8")
    for pattern, reason in _NEEDS.items():
        if re.search(pattern, text, re.MULTILINE):
            return reason
    for names in _IMPORT.findall(text):
        path = TESTS.parent / ("".join(names).replace(".", "/") + ".py")
        if path.is_file() and path not in seen:
            reason = _find_reason(path, seen)
            if reason:
                return reason
    return ""
