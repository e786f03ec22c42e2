"""Draws media/icon.png: a pipe that runs downhill into a wheel. Standard library only."""

import math
import struct
import sys
import zlib
from pathlib import Path

SIZE, FINE = 256, 3
NIGHT, WATER, FOAM = (16, 42, 67), (64, 156, 214), (214, 238, 250)


def colour(x: float, y: float) -> tuple[int, int, int, int]:
    """The colour of a point of the unit square."""
    corner = math.hypot(max(abs(x - 0.5) - 0.32, 0), max(abs(y - 0.5) - 0.32, 0))
    if corner > 0.18:  # noqa: PLR2004 — rounded corners
        return (0, 0, 0, 0)
    wheel = math.hypot(x - 0.66, y - 0.66)
    turn = math.atan2(y - 0.66, x - 0.66)
    if 0.07 < wheel < 0.2 and (wheel > 0.165 or math.cos(turn * 8) > 0.35):  # noqa: PLR2004 — rim and blades
        return (*FOAM, 255)
    along = (x - 0.14 + y - 0.2) / 2
    if wheel > 0.23 and 0 < along < 0.34 and abs(x - 0.14 - (y - 0.2)) < 0.09:  # noqa: PLR2004 — the pipe
        return (*WATER, 255)
    return (*NIGHT, 255)


def main(target: str) -> None:
    """Write the picture, smoothed by sampling each pixel several times."""
    rows = bytearray()
    for row in range(SIZE):
        rows.append(0)
        for column in range(SIZE):
            samples = [
                colour((column + (i + 0.5) / FINE) / SIZE, (row + (j + 0.5) / FINE) / SIZE)
                for i in range(FINE)
                for j in range(FINE)
            ]
            alpha = sum(sample[3] for sample in samples)
            rows += bytes(sum(s[c] * s[3] for s in samples) // alpha if alpha else 0 for c in range(3))
            rows.append(alpha // len(samples))
    head = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    data = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    Path(target).write_bytes(b"\x89PNG\r\n\x1a\n" + data)


if __name__ == "__main__":
    main(sys.argv[1])
