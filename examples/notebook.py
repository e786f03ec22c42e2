"""A run as a notebook shows it: steps, calls and tokens as HTML, and one line of text.

In a notebook a cell that ends with `run` shows this by itself. Here it is saved as a page, which loads nothing from
elsewhere. `python examples/notebook.py openai/gpt-5` asks that model. Without an argument a packaged model answers: no
key, no network.
"""

import sys
from pathlib import Path

import penstock


def read_gauge(station: str) -> str:
    """Read the level of the water."""
    return f"{station}: 3.2 m"


def ask(client: penstock.SyncClient, model: str) -> str:
    """Returns the page, as a notebook asks for it."""
    run = client.run(model, "How high is the water at the upper gate?", tools=[read_gauge])
    print(run.output)
    print(repr(run))
    return run._repr_html_()  # pyright: ignore[reportPrivateUsage] — notebooks look for this name


def main(model: str = "replay/agent") -> None:
    with penstock.SyncClient() as client:
        Path("run.html").write_text(ask(client, model), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
