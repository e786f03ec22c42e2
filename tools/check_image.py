"""Runs the steps of deploy/Dockerfile in a clean root, without a container engine, and then the image's command.

`python tools/check_image.py`, as root on Linux. A stage is a folder with this system's programs below it, which are
read-only; what the steps write stays in the folder. The last stage runs as its USER on a read-only root, without a
network, until its HEALTHCHECK succeeds. What this cannot show: the base images, for which this system stands.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "deploy" / "Dockerfile"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64")
PATH = "/run/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
START_TIMEOUT = 60  # seconds
_ETC = (
    "alternatives ca-certificates default group gshadow hosts ld.so.cache login.defs nsswitch.conf passwd pip.conf "
    "resolv.conf shadow ssl"
)


@dataclass
class Stage:
    """A stage of the file, and the folder that is its root."""

    name: str
    root: Path
    steps: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    env: dict[str, str] = field(default_factory=dict[str, str])
    folder: str = "/"


def read_stages(text: str, folder: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    stages: list[Stage] = []
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "final"
            stages.append(Stage(name, folder / name))
        else:
            stages[-1].steps.append((word, rest.strip()))
    return stages


def prepare_root(stage: Stage) -> None:
    """Make the folder of a stage: empty, but for the places where the system's folders are mounted."""
    for name in (*SYSTEM, "dev", "proc", "opt", "src", "data", "etc"):
        (stage.root / name).mkdir(parents=True)
    (stage.root / "tmp").mkdir()
    (stage.root / "tmp").chmod(0o1777)
    programs = stage.root / "run" / "bin"  # the base images have `python`, this system may have `python3` only
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    for name in _ETC.split():
        source, target = Path("/etc") / name, stage.root / "etc" / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy(source, target)


def run(stage: Stage, command: str, *, more: str = "", unshare: tuple[str, ...] = ()) -> None:
    """Run a shell command in the root of a stage. `more`: mounts in addition."""
    mounts = [f"mount --rbind /{name} {stage.root}/{name}" for name in (*SYSTEM, "dev") if Path(f"/{name}").exists()]
    mounts += [f"mount -o remount,bind,ro {stage.root}/{name}" for name in SYSTEM if Path(f"/{name}").exists()]
    for local in filter(Path.is_dir, Path("/opt").iterdir()):  # such as a local index of packages
        target = stage.root / "opt" / local.name
        if local.name != "penstock":
            target.mkdir(exist_ok=True)
            mounts.append(f"mount --bind -o ro {local} {target}")
    mounts += [f"mount -t proc proc {stage.root}/proc", more or "true"]
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "NPM_", "npm_"))}
    env = {"PATH": PATH, "HOME": "/tmp", **kept, **stage.env}  # noqa: S108 — in the stage's own root
    inside = f"cd {shlex.quote(stage.folder)} && {command}"
    script = f"set -e\n{chr(10).join(mounts)}\nexec chroot {stage.root} /bin/sh -c {shlex.quote(inside)}"
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *unshare, "sh", "-c", script]
    subprocess.run(words, check=True, env=env)  # noqa: S603 — the file's own steps


def copy(stage: Stage, words: list[str], stages: dict[str, Stage]) -> None:
    """COPY: from the repository, or from another stage."""
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, target = words
    place = stage.root / (target if target.startswith("/") else f"{stage.folder}/{target}").lstrip("/")
    for name in names:
        found = source / name.lstrip("/")
        if found.is_dir():
            ignored = shutil.ignore_patterns("node_modules", "__pycache__")
            shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            to = place / found.name if target.endswith("/") or target == "." or place.is_dir() else place
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, to)


def run_stage(stage: Stage, stages: dict[str, Stage]) -> None:
    """Run the steps of a stage that build it."""
    prepare_root(stage)
    for word, rest in stage.steps:
        if word in {"RUN", "COPY", "WORKDIR"}:
            print(f"{stage.name}: {word} {rest}", file=sys.stderr, flush=True)
        if word == "RUN":
            run(stage, rest)
        elif word == "COPY":
            copy(stage, rest.split(), stages)
        elif word == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            values = dict(one.split("=", 1) for one in shlex.split(rest))
            stage.env |= {name: value.replace("$PATH", PATH) for name, value in values.items()}


def start(stage: Stage) -> None:
    """Run the command of the last stage until its health check succeeds, then stop it."""
    steps = dict(stage.steps)
    user, _, group = steps["USER"].partition(":")
    command = shlex.join(json.loads(steps["ENTRYPOINT"]) + json.loads(steps["CMD"]))
    check = shlex.join(json.loads(steps["HEALTHCHECK"].partition("CMD ")[2]))
    become = f"setpriv --reuid {user} --regid {group} --clear-groups --no-new-privs --inh-caps=-all"
    script = f"""
ip link set lo up
{become} sh -c 'touch /not-writable 2>/dev/null' && {{ echo 'the root can be written' >&2; exit 1; }}
{become} {command} & server=$!
for _ in $(seq {START_TIMEOUT}); do
  {become} {check} 2>/dev/null && {{ kill -TERM $server; wait $server; echo "ended with $?"; exit 0; }}
  sleep 1
done
echo 'the health check did not succeed' >&2; exit 1"""
    fresh = [f"mount --rbind {stage.root} {stage.root}", f"mount -o remount,bind,ro {stage.root}"]
    fresh += [f"mount -t tmpfs -o mode=1777 none {stage.root}/{name}" for name in ("tmp", "data")]
    print(f"final: {command} as {user}, on a read-only root", file=sys.stderr, flush=True)
    run(stage, script, more="\n".join(fresh), unshare=("--net",))


def main() -> int:
    """Run all stages. The page's stage is skipped where there is no npm: the built page of this tree is used."""
    if sys.platform != "linux" or os.geteuid() != 0:
        print("this needs root on Linux: it mounts folders in a namespace of its own", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as folder:
        found = read_stages(FILE.read_text(), Path(folder))
        stages = {stage.name: stage for stage in found}
        for stage in found:
            if stage.name == "page" and "--without-page" in sys.argv:
                print("page: skipped; the page that is built in this tree is used", file=sys.stderr)
                static = Path("src/penstock/_inspector/static")
                shutil.copytree(ROOT / static, stage.root / "src" / static)
            else:
                run_stage(stage, stages)
        start(found[-1])
    print("every step ran, and the gateway answered", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
