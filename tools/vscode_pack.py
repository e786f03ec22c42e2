"""Packs the extension: `python tools/vscode_pack.py [--out FILE]` builds the wheel, bundles the code, writes the .vsix.

The wheel and the lock of what it needs travel inside, so that nothing is ever taken from an index by name alone.
`--gateway FOLDER` makes a package for one platform, with the self-contained gateway (`python -m tools.standalone`)
inside: for this machine's platform unless `--target` names another. `--wheel FILE` takes a wheel that is built already.
The bytes of a package depend on its content alone; SOURCE_DATE_EPOCH sets the time of its files. Leans on the npm
packages of vscode/ (`make` installs them) and on hatchling.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import vscode_publication  # noqa: E402 — run as a script, this folder is not a package
from tools.publication import read_publication  # noqa: E402
from tools.reproducible_archives import extract_tar, rewrite_zip  # noqa: E402

EXTENSION = ROOT / "vscode"
BUNDLE = EXTENSION / "bundle"
GATEWAY = BUNDLE / "gateway"
LIMIT = 300  # seconds that a step may take
MANIFEST = EXTENSION / "package.json"


def run(*command: str | Path, cwd: Path = EXTENSION) -> None:
    """Run a step; what it says is shown only if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False)  # noqa: S603 — our own
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def bundle(wheel: Path | None = None) -> None:
    """The wheel of this tree, the inspector's page in it, and the lock of what it needs."""
    shutil.rmtree(BUNDLE, ignore_errors=True)
    BUNDLE.mkdir()
    if wheel:
        shutil.copy(wheel, BUNDLE)
    else:
        run("bash", ROOT / "tools/web.sh", "build", cwd=ROOT)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", BUNDLE, cwd=ROOT)
    shutil.copy(ROOT / "requirements/runtime.lock", BUNDLE)


def pack(out: Path, target: str = "", gateway: Path | None = None, repository: str | None = None) -> None:
    """Everything, into one file. `gateway`: the folder or archive of the self-contained gateway for `target`.

    `repository`: the address to publish, if it is not that of pyproject.toml.
    """
    prepare()
    write_package(out, target, gateway, repository)


def prepare(wheel: Path | None = None) -> None:
    """What all packages share: the wheel, its lock, the bundled code."""
    bundle(wheel)
    shutil.copy(ROOT / "LICENSE", EXTENSION / "LICENSE")
    run(tool("node"), "tools/build.mjs")


def write_package(out: Path, target: str = "", gateway: Path | None = None, repository: str | None = None) -> None:
    """Write one package, for one platform or for all."""
    repository = read_publication().repository if repository is None else repository
    written = MANIFEST.read_text("utf-8")
    manifest = vscode_publication.fill_manifest(json.loads(written), repository)
    readme = vscode_publication.fill_readme(
        (EXTENSION / "README.md").read_text("utf-8"), repository, manifest["version"]
    )
    (EXTENSION / "dist/README.md").write_text(readme, "utf-8")
    vsce = EXTENSION / "node_modules/@vscode/vsce/vsce"
    flags = ["--no-dependencies", "--allow-missing-repository", "--no-rewrite-relative-links", "--skip-license"]
    try:
        if gateway:
            add_gateway(gateway)
            flags += ["--target", target]
        if repository:
            MANIFEST.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
        run(tool("node"), vsce, "package", *flags, "--readme-path", "dist/README.md", "--out", out)
        rewrite_zip(out)
    finally:
        if repository:
            MANIFEST.write_text(written, "utf-8")
        # An extension that is run from this folder must not start yesterday's gateway.
        shutil.rmtree(GATEWAY, ignore_errors=True)


def add_gateway(source: Path) -> None:
    """Put the self-contained gateway into the package: from its folder, or from the archive that is also a download."""
    if source.is_dir():
        shutil.copytree(source, GATEWAY)
        return
    with tempfile.TemporaryDirectory(dir=EXTENSION) as place:
        if source.suffix == ".zip":
            with zipfile.ZipFile(source) as archive:
                archive.extractall(place)
        else:
            extract_tar(source, Path(place))
        (folder,) = Path(place).iterdir()
        shutil.move(folder, GATEWAY)


def tool(name: str) -> str:
    """A program of the environment, or of the machine."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def main() -> None:
    """Parse, pack, say where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", type=Path, help="folder or archive of the self-contained gateway")
    parser.add_argument("--target", help="the platform that the gateway is for; without it, this machine's")
    parser.add_argument("--wheel", type=Path, help="the wheel of penstock; without it, it is built from this tree")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    target = ""
    if options.gateway:
        sys.path.insert(0, str(ROOT))  # it is run as a script
        from tools.standalone.targets import TARGETS, this_target  # noqa: PLC0415

        target = options.target or this_target()
        if target not in TARGETS:
            parser.error(f"there is no target {target}: {', '.join(TARGETS)}")
    elif options.target:
        parser.error("--target needs --gateway")
    out: Path = (options.out or ROOT / f"dist/{'-'.join(filter(None, ('penstock', target)))}.vsix").resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    prepare(options.wheel and options.wheel.resolve())
    write_package(out, target, options.gateway and options.gateway.resolve())
    print(f"{out}: {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
