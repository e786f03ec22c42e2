"""What the executable of the self-contained gateway runs: the command `penstock`, or the extension's launcher.

`penstock vscode-launch LEASES [arguments of penstock serve]` is for the extension only: it runs the code of
`vscode/media/launch.py`, which stops the gateway after the last window.
"""

# ruff: noqa: PLC0415 — only what a command line needs is imported

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

LAUNCH = "vscode-launch"
# Where systems keep their certificate authorities. The paths compiled into OpenSSL are those of the build machine.
CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, RHEL
    "/etc/pki/tls/certs/ca-bundle.crt",  # older RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, Alpine
)
CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def choose_ca_file(system_files: tuple[str, ...], packaged: str) -> str:
    """Returns the system's file of certificate authorities: companies add their own there. Else the packaged one."""
    return next((path for path in system_files if Path(path).is_file()), packaged)


def prepare_environment(environ: os._Environ[str] | dict[str, str], platform: str) -> None:
    """Sets where certificate authorities are, and undoes what the bootloader changed for this process only."""
    original = environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if platform == "linux" and hasattr(sys, "_MEIPASS"):
        # Programs that penstock starts must use the system's libraries, not those of this folder.
        if original is None:
            environ.pop("LD_LIBRARY_PATH", None)
        else:
            environ["LD_LIBRARY_PATH"] = original
    if platform == "win32" or any(environ.get(name) for name in CA_VARIABLES):
        return  # Windows: Python asks the system's certificate store
    import certifi

    environ["SSL_CERT_FILE"] = choose_ca_file(CA_FILES, certifi.where())


def main() -> int:
    """Runs one command line."""
    multiprocessing.freeze_support()
    prepare_environment(os.environ, sys.platform)
    if sys.argv[1:2] == [LAUNCH]:
        import launch  # type: ignore[import-not-found]  # vscode/media/launch.py

        del sys.argv[1]
        launch.main()
        return 0
    from penstock._cli import main as run_command_line

    return run_command_line()


if __name__ == "__main__":
    sys.exit(main())
