"""Write src/penstock/_providers/models.json anew from a table of models: python tools/models.py FILE.

FILE is JSON in the form of models.dev (https://models.dev/api.json). Kept are the providers that providers.toml names,
a line for each model, so that a difference can be read. Change PACKAGED_DATE in model_facts.py, too. Users refresh
their own copy by `penstock models refresh`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock._providers.models_dev import read_models_dev

OUT = Path(__file__).resolve().parents[1] / "src/penstock/_providers/models.json"


def main() -> int:
    """Read, choose, write."""
    if len(sys.argv) != 2:  # noqa: PLR2004
        print(__doc__, file=sys.stderr)
        return 2
    tables = read_models_dev(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    written = [
        f"{json.dumps(name)}:[\n"
        + ",\n".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)
        + "\n]"
        for name, lines in tables.items()
    ]
    OUT.write_text("{" + ",\n".join(written) + "}\n", encoding="utf-8")
    print(f"{len(tables)} providers, {sum(map(len, tables.values()))} models", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
