"""Release notes from the changelog. A change adds a file to changelog.d/, and a release collects them in CHANGELOG.md.

A file is named `<any words>.<type>.md`, with a type of TYPES, and has the text of one entry. Entries that stand under
`## [Unreleased]` in CHANGELOG.md count, too. `python -m tools.release.changelog` prints the notes of this version
(`make release-notes`); `--tag-message` prints them as the message of a tag; `--collect` moves everything that is not
released into a section of this version and removes the files (`make changelog`); `--check FILE...` checks names.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
from pathlib import Path

from tools.release.versions import ROOT, read_version

# The type of an entry, and its heading. In this order they stand in the changelog.
TYPES = {
    "added": "Added", "changed": "Changed", "deprecated": "Deprecated", "removed": "Removed", "security": "Security",
    "fixed": "Fixed", "developers": "For developers",
}  # fmt: skip
FOLDER = "changelog.d"
FILE = "CHANGELOG.md"
UNRELEASED = "Unreleased"
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
_TYPE = re.compile(r"^### (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]{1,500})\]\([^()]{1,500}\)")
Entries = dict[str, list[str]]  # type → texts, each with the lines of one entry or several


def fragment_problem(file: Path) -> str:
    """Returns what is wrong with a file of changelog.d, if anything is."""
    parts = file.name.split(".")
    if len(parts) != 3 or parts[1] not in TYPES or parts[2] != "md":  # noqa: PLR2004 — words, type, md
        return f"{file.name}: the name is <words>.<type>.md, with a type of {', '.join(TYPES)}"
    text = file.read_text("utf-8").strip()
    if not text:
        return f"{file.name} is empty"
    return (
        f"{file.name}: write the entry without a list mark; it is added" if text.startswith(("- ", "* ", "#")) else ""
    )


def read_fragments(root: Path = ROOT) -> tuple[Entries, list[Path]]:
    """Returns the entries of changelog.d by type, and their files. Raises SystemExit if a file is wrong."""
    files = sorted(file for file in (root / FOLDER).glob("*") if file.name != "README.md")
    problems = [problem for file in files if (problem := fragment_problem(file))]
    if problems:
        raise SystemExit("\n".join(problems))
    entries: Entries = {}
    for file in files:
        lines = file.read_text("utf-8").strip().splitlines()
        entry = "\n".join([f"- {lines[0]}", *(f"  {line}".rstrip() for line in lines[1:])])
        entries.setdefault(file.name.split(".")[1], []).append(entry)
    return entries, files


def read_section(text: str, version: str) -> str | None:
    """Returns what stands under the heading of a version, or None if there is no such heading."""
    headings = list(_HEADING.finditer(text))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            return text[heading.end() : after.start() if after else len(text)].strip()
    return None


def split_types(section: str) -> Entries:
    """Returns the entries of a section by type. Raises SystemExit for an entry without a heading of TYPES."""
    words = _TYPE.split(section)
    if words[0].strip():
        raise SystemExit(f"{FILE}: {words[0].strip()[:60]!r} stands under no heading such as ### Added")
    types = {heading: kind for kind, heading in TYPES.items()}
    strange = [heading for heading in words[1::2] if heading not in types]
    if strange:
        raise SystemExit(f"{FILE}: {strange[0]!r} is no heading of {', '.join(types)}")
    return {types[head]: [body.strip()] for head, body in zip(words[1::2], words[2::2], strict=True) if body.strip()}


def render(entries: Entries) -> str:
    """Returns a section: the types in their order."""
    found = [(heading, entries[kind]) for kind, heading in TYPES.items() if entries.get(kind)]
    return "\n\n".join(f"### {heading}\n" + "\n".join(texts) for heading, texts in found)


def unreleased(text: str, root: Path = ROOT) -> str:
    """Returns what will be in the next release: the hand-written entries and those of changelog.d."""
    entries = split_types(read_section(text, UNRELEASED) or "")
    for kind, more in read_fragments(root)[0].items():
        entries.setdefault(kind, []).extend(more)
    return render(entries)


def release_notes(version: str, root: Path = ROOT) -> str:
    """Returns the notes of a version: its section, or before the release what will be in it."""
    text = (root / FILE).read_text("utf-8")
    return read_section(text, version) or unreleased(text, root)


def release_problem(version: str, root: Path = ROOT) -> str:
    """Returns why a version cannot be released with this changelog, if it cannot."""
    text = (root / FILE).read_text("utf-8")
    if not read_section(text, version):
        return f"{FILE} has no section [{version}]: run make changelog, read what it wrote, and commit it"
    files = [file.name for file in read_fragments(root)[1]]
    if files or read_section(text, UNRELEASED):
        where = ", ".join(files) or UNRELEASED
        return f"changes are not in the section [{version}] of {FILE} ({where}): run make changelog"
    return ""


def collect(version: str, day: str, root: Path = ROOT) -> None:
    """Moves everything that is not released into the section of a version. A section that exists gets it added."""
    text = (root / FILE).read_text("utf-8")
    new = split_types(unreleased(text, root))
    if not new:
        raise SystemExit(f"nothing has changed since the last release: neither {FILE} nor {FOLDER} has an entry")
    entries = split_types(read_section(text, version) or "")
    for kind, more in new.items():
        entries.setdefault(kind, []).extend(more)
    headings = list(_HEADING.finditer(text))
    rest = next((one for one in headings if one[1] not in {UNRELEASED, version}), None)
    head = text[: headings[0].start()] if headings else text.rstrip() + "\n\n"
    tail = text[rest.start() :] if rest else ""
    body = f"{head}## [{UNRELEASED}]\n\n## [{version}] - {day}\n\n{render(entries)}\n"
    (root / FILE).write_text(f"{body}\n{tail}" if tail else body, "utf-8")
    for file in read_fragments(root)[1]:
        file.unlink()


def tag_message(version: str, root: Path = ROOT) -> str:
    """Returns the message of the tag: a title and the notes as plain text, without the targets of links."""
    notes = _LINK.sub(r"\1", _TYPE.sub(r"\1:", release_notes(version, root)))
    return f"penstock {version}\n\n{notes}\n"


def main() -> None:
    """Prints notes, collects entries, or checks files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag-message", action="store_true")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--check", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.check is not None:
        problems = [
            problem for file in options.check if file.name != "README.md" and (problem := fragment_problem(file))
        ]
        sys.exit("\n".join(problems) or None)
    version = read_version()
    if options.collect:
        collect(version, dt.datetime.now(dt.UTC).date().isoformat())
        print(f"{FILE} has a section [{version}]: read it, then commit it")
    else:
        print(tag_message(version) if options.tag_message else release_notes(version))


if __name__ == "__main__":
    main()
