"""Prints docs/losses.md: what each protocol cannot express, taken from the LOSSES tables of the encoders.

`python tools/losses.py > docs/losses.md` writes the page anew; a test fails while it is not current.
"""

from __future__ import annotations

from penstock import protocols

HEAD = """# Losses

What a target cannot express is reported, never dropped in silence: the encoder notes a diagnostic `loss-<key>` with the
sentence below, and counts how often. Every protocol that can be written has its table.

This page is made by `python tools/losses.py > docs/losses.md` from the tables in the code.
"""


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for name in sorted(protocols.MODULES):
        encoder = protocols.protocol(name).encoder
        if encoder is None:
            continue
        rows = sorted(protocols.encoder(name).losses.items())
        table = [f"| `{key}` | {said} |" for key, said in rows] or ["| | nothing is lost |"]
        parts.append("\n".join([f"## {name}", "", "| key | what happens |", "|---|---|", *table, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
