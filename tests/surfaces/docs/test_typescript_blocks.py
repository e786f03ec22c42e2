"""TypeScript and JSX of the pages are type-checked with the packages of tests/oracles/node, all blocks in one run of the compiler."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from tests.oracles.node.oracle import HERE, require_packages
from tests.surfaces.docs.page_runner import ROOT
from tools.code_blocks import CHECKS, CodeBlock, list_pages, read_blocks

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [
    block
    for page in list_pages()
    for block in read_blocks(page)
    if CHECKS.get(block.language) == "type-checked" and block.reason is None
]
PACKAGES = HERE / "pages" / "node_modules"
TSC = ROOT / "web" / "node_modules" / "typescript" / "bin" / "tsc"
NAME = re.compile(r"^block_([0-9]+)\.\w+")
# React's own types are not among the packages: this is as much of them as the pages use.
REACT = """
declare module "react" {
  export function useState<T>(first: T): [T, (next: T | ((before: T) => T)) => void];
  export function useEffect(effect: () => void | (() => void), dependencies?: readonly unknown[]): void;
}
declare module "react/jsx-runtime" {
  export namespace JSX {
    interface IntrinsicElements { [name: string]: any }
    interface ElementChildrenAttribute { children: {} }
  }
  export const jsx: unknown, jsxs: unknown, Fragment: unknown;
}
"""


def check_types(folder: Path, blocks: list[CodeBlock]) -> list[str]:
    """Writes the blocks to a folder and compiles them without output. Returns the compiler's complaints."""
    for number, block in enumerate(blocks):
        setup = block.marks.get("setup", "")
        (folder / f"block_{number}.{block.language}").write_text(
            f"{setup}\n{block.text}\nexport {{}};\n", encoding="utf-8"
        )
    (folder / "react.d.ts").write_text(REACT)
    options = {
        "strict": True, "noEmit": True, "skipLibCheck": True, "target": "es2022", "module": "esnext", "jsx": "react-jsx",
        "moduleResolution": "bundler", "allowJs": True, "types": [], "lib": ["es2024", "dom", "dom.iterable"],
        "paths": {"@ai-sdk/react": [f"{PACKAGES}/react7"], "ai": [f"{PACKAGES}/ai"]},
    }  # fmt: skip
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*"]}))
    node = HERE / ".node" / "bin" / "node"
    command = [str(node), str(TSC), "-p", "tsconfig.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    lines = (done.stdout + done.stderr).splitlines() if done.returncode else []
    return [NAME.sub(lambda found: blocks[int(found[1])].place, line) for line in lines]


def test_the_blocks_have_the_right_types(tmp_path: Path) -> None:
    require_packages("pages")
    assert BLOCKS
    assert check_types(tmp_path, BLOCKS) == []


def test_a_wrong_block_is_found(tmp_path: Path) -> None:
    require_packages("pages")
    text = (
        'import { useChat } from "@ai-sdk/react";\nexport const wrong = () => useChat().sendMesage({ text: "Hi" });\n'
    )
    (found,) = check_types(tmp_path, [CodeBlock(ROOT / "README.md", 7, "ts", "", text, {})])
    assert "README.md:7" in found
    assert "sendMesage" in found
