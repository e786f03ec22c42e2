"""Boxes and arrows as SVG. All text stands on a filled shape: legible on a light page and on a dark one."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
ARROW = "#8a94a0"
INK = "#16202b"
# name → fill and border
COLOURS = {
    "blue": ("#d6e6fb", "#5b8fd0"),
    "green": ("#d3f0e6", "#3f9d80"),
    "amber": ("#fbe9c6", "#c9942c"),
    "grey": ("#e6eaee", "#98a2ad"),
    "rose": ("#f8dbe0", "#c9707f"),
}


@dataclass
class Drawing:
    """A picture of a fixed width; its height grows with what is drawn."""

    width: int
    label: str
    height: int = 0
    shapes: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, lines: list[str], colour: str = "grey") -> None:
        """Draws a box. The first line of its text is bold if there are more."""
        fill, border = COLOURS[colour]
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{border}"/>'
        )
        step = 19
        top = y + height / 2 - (len(lines) - 1) * step / 2 + 5
        for number, line in enumerate(lines):
            style = 'font-weight="600"' if number == 0 and len(lines) > 1 else 'font-size="14"'
            at = f'x="{x + width / 2:g}" y="{top + number * step:g}" text-anchor="middle"'
            self.shapes.append(f"<text {at} {style}>{escape(line)}</text>")
        self.height = max(self.height, round(y + height))

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draws an arrow from one point to another."""
        self.shapes.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{ARROW}" stroke-width="2"'
            ' marker-end="url(#head)"/>'
        )

    def chips(self, y: float, texts: list[str], colour: str) -> float:
        """Draws small boxes in centred rows and returns where they end."""
        height, gap = 30, 8
        for row in self._rows(texts, gap):
            x = (self.width - sum(width for _, width in row) - gap * (len(row) - 1)) / 2
            for text, width in row:
                self.box(x, y, width, height, [text], colour)
                x += width + gap
            y += height + gap
        return y - gap

    def _rows(self, texts: list[str], gap: int) -> list[list[tuple[str, float]]]:
        rows: list[list[tuple[str, float]]] = [[]]
        used = 0.0
        for text in texts:
            width = len(text) * 8 + 22
            if rows[-1] and used + width > self.width:
                rows.append([])
                used = 0.0
            rows[-1].append((text, width))
            used += width + gap
        return rows

    def text(self) -> str:
        """The whole picture as SVG."""
        head = (
            f'<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 10 5 0 10z" fill="{ARROW}"/></marker>'
        )
        width, height = self.width + 2, self.height + 2
        size = f'viewBox="-1 -1 {width} {height}" width="{width}" height="{height}"'
        label = f'role="img" aria-label="{escape(self.label)}"'
        style = f'font-family="{FONT}" font-size="15" fill="{INK}"'
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label} {style}>'
        title = f"<title>{escape(self.label)}</title>"
        return "\n".join([opening, title, f"<defs>{head}</defs>", *self.shapes, "</svg>", ""])
