"""`tools/test_all.py`: how the work is cut, what is remembered, and what is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools import test_all as runner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

COLLECTED = """\
tests/faults/test_fault_matrix.py::test_the_whole_fault_matrix[native-gemini]
tests/faults/test_fault_matrix.py::test_the_whole_fault_matrix[sdk-gemini]
tests/store/test_kills.py::test_a[one]
tests/store/test_kills.py::test_b

4/900 tests collected (896 deselected) in 3.2s
"""
PRINTED = """\
..                                                                       [100%]
==================================== tables ====================================
fault matrix, gemini, native: 784 cells, 1568 requests, 0 wrong
another line of figures
=========================== short test summary info ============================
FAILED tests/test_x.py::test_y - 3 passed in a story
1 failed, 12 passed, 2 skipped in 3.20s
"""


def test_large_files_are_cut_by_test_and_others_are_one_slice() -> None:
    made = runner.exhaustive_slices(COLLECTED.splitlines())
    assert [one.name for one in made] == [
        "tests/faults/test_fault_matrix.py::test_the_whole_fault_matrix[native-gemini]",
        "tests/faults/test_fault_matrix.py::test_the_whole_fault_matrix[sdk-gemini]",
        "tests/store/test_kills.py",
    ]
    assert all(one.words[-1] == one.name for one in made)


def test_the_suite_is_cut_by_folder(tmp_path: Path) -> None:
    for name in ("test_a.py", "b/test_b.py", "b/c/test_c.py", "b/helper.py", "node_modules/x/test_d.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    made = {one.name: one.words for one in runner.suite_slices(tmp_path / "tests")}
    assert {name: words[-1] for name, words in made.items()} == {
        "suite tests": "tests/test_a.py",
        "suite tests/b": "tests/b/test_b.py",
        "suite tests/b/c": "tests/b/c/test_c.py",
    }
    assert all("not exhaustive" in words for words in made.values())


def test_files_that_get_the_mark_from_a_helper_are_looked_at(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    (tests / "support").mkdir(parents=True)
    for name, text in (
        ("support/samples.py", "MARKS = pytest.mark.exhaustive"),
        ("test_helper.py", "from tests.support.samples import MARKS"),
        ("test_own.py", "@pytest.mark.exhaustive"),
        ("test_other.py", "from tests.support.others import MARKS"),
    ):
        (tests / name).write_text(text)
    assert [file.name for file in runner.marked_files(tests)] == ["test_helper.py", "test_own.py"]


def test_counts_and_figures_are_read_from_what_pytest_prints() -> None:
    assert runner.counts_of(PRINTED) == {"failed": 1, "passed": 12, "skipped": 2}
    assert runner.figures_of(PRINTED)[0].startswith("fault matrix, gemini")
    assert len(runner.figures_of(PRINTED)) == 2
    assert runner.counts_of("nothing at all") == {}


def test_a_slice_that_passed_is_not_run_again_and_a_failed_one_is(tmp_path: Path) -> None:
    state = runner.State(tmp_path, "tree")
    good, bad = runner.Slice("tests/a.py::x[1]", ()), runner.Slice("b", ())
    state.save(runner.Result(good.name, passed=True, seconds=3.0, counts={"passed": 2}))
    state.save(runner.Result(bad.name, passed=False, seconds=1.0))
    again = runner.State(tmp_path, "tree")
    found = again.load(good)
    assert found is not None
    assert (found.seconds, found.counts) == (3.0, {"passed": 2})
    assert again.load(bad) is None
    assert runner.State(tmp_path, "another tree").load(good) is None
    again.restart()
    assert again.load(good) is None


def test_slices_run_on_behind_a_failure_and_resume(tmp_path: Path) -> None:
    good = tmp_path / "test_good.py"
    good.write_text("def test_it(record_property):\n    record_property('table', 'figures: 7')\n")
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_it():\n    assert False\n")
    chosen = [
        runner.Slice(name, ("-p", "no:xdist", "-p", "no:cacheprovider", str(file)))
        for name, file in (("bad", bad), ("good", good))
    ]
    state = runner.State(tmp_path / "state", "tree")
    first = runner.run_all(chosen, state)
    assert [(one.name, one.passed) for one in first] == [("bad", False), ("good", True)]
    assert "1 of 2 slices failed" in runner.summary(first)
    good.write_text("def test_it():\n    assert False\n")  # it is not asked again
    bad.write_text("def test_it():\n    pass\n")
    second = runner.run_all(chosen, state)
    assert [one.passed for one in second] == [True, True]
    assert "all 2 slices passed" in runner.summary(second)


def test_the_tree_has_a_name_of_its_own() -> None:
    assert runner.tree_hash() == runner.tree_hash()


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_slice_and_resumes(tmp_path: Path, sent: signal.Signals) -> None:
    """Real processes: the first slice has passed, the second is at work when the signal comes."""
    good, slow, begun = tmp_path / "test_good.py", tmp_path / "test_slow.py", tmp_path / "begun"
    os.mkfifo(begun)
    good.write_text("def test_it(): pass\n")
    slow.write_text(f"""
import threading
def test_it():
    with open({str(begun)!r}, "w", buffering=1) as pipe:
        pipe.write("begun\\n")
        threading.Event().wait(60)
        pipe.write("ended\\n")
""")
    script = f"""
from pathlib import Path
from tools import test_all as runner
runner.STATE, runner.tree_hash = Path({str(tmp_path)!r}), lambda: "tree"
words = "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", {str(tmp_path)!r}
runner.collect = lambda: [runner.Slice("good", (*words, {str(good)!r})), runner.Slice("slow", (*words, {str(slow)!r}))]
raise SystemExit(runner.main([]))
"""
    command = [sys.executable, "-c", script]
    first = subprocess.Popen(command, cwd=runner.ROOT, stdout=subprocess.PIPE, text=True)
    with begun.open() as pipe:
        assert pipe.readline() == "begun\n"
        first.send_signal(sent)
        told, _ = first.communicate(timeout=30)
        assert not pipe.read()  # closed by the end of the slice's process, not by that of its test
    assert first.returncode == 130
    assert "interrupted; run it again" in told
    slow.write_text("def test_it(): pass\n")
    again = subprocess.run(command, cwd=runner.ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "slice 1 of 2: good: passed before" in again.stdout
    assert "slice 2 of 2: slow: passed in" in again.stdout
