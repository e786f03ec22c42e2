"""`python -m tools.docs_site.diagrams`: draws docs/pictures/{pipeline,gateway-turn,package-layout}.svg.

The package layout is read from the import contracts in pyproject.toml, which `make contracts` holds the code to.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.docs_site.svg import Drawing

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
WIDTH = 560
_GAP = 26

SOURCES = [
    "Chat Completions", "Responses", "Messages", "Gemini", "Bedrock", "Cohere", "Ollama", "AI SDK", "Completions",
    "UI stream", "VS Code parts",
]  # fmt: skip
TARGETS = [
    "Chat Completions", "Responses", "Messages", "Gemini", "AI SDK", "UI stream", "Completions", "VS Code parts",
]  # fmt: skip
# What a group of layers is for, by its first line in the contract, and its colour.
GROUPS = {
    "client": ("Public names", "green"),
    "_cli": ("Programs: IO, clocks, ids", "amber"),
    "vscode": ("Core: no IO, no clock, no ids", "blue"),
}


def draw_pipeline() -> Drawing:
    """From the bytes of a provider to the bytes of a client."""
    drawing = Drawing(WIDTH, "The pipeline: provider stream, canonical events, client stream")
    drawing.box(0, 0, WIDTH, 34, ["A provider's stream, bytes cut anywhere"], "grey")
    y = drawing.chips(44, SOURCES, "grey")
    stages = [
        (["Parser", "bytes → frames: SSE, NDJSON, JSON array, AWS event stream"], "blue"),
        (["Decoder, one for each protocol", "frames → events"], "blue"),
        (["Canonical events", "Start · TextDelta · ReasoningDelta · CallEnd · Usage · Finish or Fault"], "green"),
        (["Transforms", "think tags, stop sequences, tool names, one part at a time"], "blue"),
        (["Encoder, one for each protocol", "events → frames"], "blue"),
        (["Writer", "frames → bytes"], "blue"),
    ]
    for lines, colour in stages:
        drawing.arrow(WIDTH / 2, y + 2, WIDTH / 2, y + _GAP - 2)
        drawing.box(0, y + _GAP, WIDTH, 52, lines, colour)
        y += _GAP + 52
    drawing.arrow(WIDTH / 2, y + 2, WIDTH / 2, y + _GAP - 2)
    y = drawing.chips(y + _GAP, TARGETS, "grey")
    drawing.box(0, y + 10, WIDTH, 34, ["What the client expects"], "grey")
    return drawing


_DOWN = [
    (["Check the key", "who asks, which models"], "amber"),
    (["Read the request", "client's protocol → canonical"], "blue"),
    (["Look in the cache", "a hit skips the provider"], "amber"),
    (["Reserve limits", "rate, budget, slots"], "amber"),
    (["Choose a target", "alias, deployment, key"], "amber"),
    (["Convert and send", "canonical → provider's protocol"], "blue"),
]
_UP = [
    (["Send to the client", "keep-alives, back-pressure"], "amber"),
    (["Encode", "events → client's protocol"], "blue"),
    (["Transform", "what this client needs"], "blue"),
    (["Canonical events", "inspector, recording, cache"], "green"),
    (["Decode", "same protocol: bytes pass through"], "blue"),
    (["First content or an error", "retry, next target, or refuse"], "rose"),
]


def draw_gateway_turn() -> Drawing:
    """A turn through the gateway: down to the provider on the left, back to the client on the right."""
    drawing = Drawing(WIDTH, "A turn through the gateway")
    drawing.box(0, 0, WIDTH, 40, ["Client: any SDK, agent, editor or page"], "grey")
    column, height = 268, 56
    end = 40 + len(_DOWN) * (_GAP + height)
    for side, rows in ((0, _DOWN), (WIDTH - column, _UP)):
        middle = side + column / 2
        for number in range(len(rows) + 1):
            y = 40 + number * (_GAP + height)
            top, bottom = y + 2, y + _GAP - 2
            drawing.arrow(middle, *((top, middle, bottom) if side == 0 else (bottom, middle, top)))
        for number, (lines, colour) in enumerate(rows):
            drawing.box(side, 40 + number * (_GAP + height) + _GAP, column, height, lines, colour)
    drawing.box(0, end + _GAP, WIDTH, 40, ["Provider: its own protocol"], "grey")
    after = ["When the turn ends, however it ends", "journal, metrics, cost, settled limits, state for the next turn"]
    drawing.box(0, end + _GAP + 56, WIDTH, height, after, "amber")
    return drawing


def read_layers(text: str) -> list[list[str]]:
    """The layers of the contract, from the top; each is a list of modules."""
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    return [re.findall(r"\w+", layer) for layer in layers]


def draw_package_layout() -> Drawing:
    """The layers of the package: each imports only from those below."""
    drawing = Drawing(WIDTH, "The layers of the package: a module imports only from layers below it")
    y, colour = 0.0, "grey"
    for layer in read_layers((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        for module, (title, paint) in GROUPS.items():
            if module in layer:
                y += 10 if y else 0
                drawing.box(0, y, WIDTH, 34, [title], "grey")
                y, colour = y + 44, paint
        y = drawing.chips(y, layer, colour) + 14
    return drawing


DIAGRAMS = {
    "pipeline.svg": draw_pipeline,
    "gateway-turn.svg": draw_gateway_turn,
    "package-layout.svg": draw_package_layout,
}


def main() -> None:
    """Writes the pictures."""
    for name, draw in DIAGRAMS.items():
        (PICTURES / name).write_text(draw().text(), encoding="utf-8")
        print(f"docs/pictures/{name}")


if __name__ == "__main__":
    main()
