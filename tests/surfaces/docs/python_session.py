"""Runs the Python blocks of one page in one process. Each block is a module of its own, as if a reader had saved it to a file.

Started by page_runner.py. Reads one JSON object a line (`code`, `place`, `keep`), writes one (`output`, `failed`).
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from types import ModuleType


def run_code(code: str, place: str, module: ModuleType) -> bool:
    """Runs a block, which may have `await` outside of functions, as in a notebook. Returns whether it failed."""
    sys.modules["__main__"] = module  # where typing looks up the names of annotations
    try:
        compiled = compile(code, place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(compiled, module.__dict__)  # noqa: S307 — it is our own page
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except (Exception, SystemExit):  # noqa: BLE001 — it is shown, and the page goes on
        traceback.print_exc()
        return True
    return False


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.path.insert(0, "")
    module = ModuleType("__main__")
    for line in sys.stdin:
        asked = json.loads(line)
        if not asked["keep"]:
            module = ModuleType("__main__")
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            failed = run_code(asked["code"], asked["place"], module)
        print(json.dumps({"output": output.getvalue(), "failed": failed}), file=answers, flush=True)
    os._exit(0)  # a server that a block has started in a thread ends with it


if __name__ == "__main__":
    main()
