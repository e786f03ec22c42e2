"""The diagrams in docs/pictures are those that the script draws, and the layers are those of the import contracts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.docs_site.diagrams import DIAGRAMS, GROUPS, PICTURES, WIDTH, read_layers

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_picture_is_up_to_date(name: str) -> None:
    drawn = DIAGRAMS[name]().text()
    assert (PICTURES / name).read_text(encoding="utf-8") == drawn, "python -m tools.docs_site.diagrams"


@pytest.mark.parametrize("name", DIAGRAMS)
def test_boxes_stay_inside_the_picture(name: str) -> None:
    for box in ET.fromstring(DIAGRAMS[name]().text()).iter(f"{SVG}rect"):  # noqa: S314 - our own text
        assert float(box.get("x", 0)) >= 0
        assert float(box.get("x", 0)) + float(box.get("width", 0)) <= WIDTH


def test_the_layout_shows_every_module_of_the_contract() -> None:
    layers = read_layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = [module for layer in layers for module in layer]
    assert set(GROUPS) <= set(modules)
    shown = DIAGRAMS["package-layout.svg"]().text()
    assert [module for module in modules if f">{module}</text>" not in shown] == []
    assert all(import_module(f"penstock.{module}") for module in modules if module != "__main__")
