"""The tables are total: every event has its row in every encoder, every loss is written down and can happen."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest

import penstock
from penstock import _protocols as protocols
from penstock import events as ev
from penstock._fold import Fold
from penstock._grammar import ATOMS, FREE, PARTS, TERMINALS
from penstock._vendor_errors import error_rules, fault_kind
from penstock.framing import PARSERS, WRITERS
from tests.support import run_streams as running
from tests.support import turn_facets as facets
from tests.support.paths import PROJECT
from tests.support.stream_cases import Case, cases
from tools import losses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytestmark = pytest.mark.usefixtures("strict")
KINDS = frozenset(get_args(ev.FaultKind))
REASONS = frozenset(get_args(ev.Reason))


def modules(name: str) -> Iterator[ModuleType]:
    """Every module of a protocol's folder."""
    folder = PROJECT / "src/penstock/_protocols" / protocols.MODULES[name]
    for path in sorted(folder.glob("*.py")):
        tail = "" if path.stem == "__init__" else f".{path.stem}"
        yield import_module(f"penstock._protocols.{folder.name}{tail}")


def test_a_protocol_fills_in_its_row() -> None:
    for name in running.NAMES:
        row = running.row(name)
        assert row.name == name
        assert row.decoder or row.encoder, name
        assert row.reads in PARSERS, name
        assert row.writes in WRITERS, name


def test_an_encoder_has_a_row_for_every_event() -> None:
    names = [name for target in running.targets() for name in running.versions(target)]
    assert [name for name in names if set(penstock.encoder(name).table) != set(ev.EVENTS)] == []


def test_the_fold_has_a_row_for_every_event() -> None:
    assert set(Fold.table) == set(ev.EVENTS)


def test_the_grammar_has_a_place_for_every_event() -> None:
    spans = [{start, delta, *ends} for start, (delta, ends) in PARTS.items()]
    places = [{ev.Start}, ATOMS, FREE, TERMINALS, *spans]
    assert set().union(*places) == set(ev.EVENTS)
    assert sum(map(len, places)) == len(ev.EVENTS)


def test_every_loss_happens_in_some_case_and_has_its_excuse() -> None:
    """And no other happens: a report that is not written down is a KeyError."""
    for target in running.targets():
        losses = set(penstock.encoder(target).losses)
        reported = {key for name in running.versions(target) for case in cases() for key in _reported(name, case)}
        assert losses - reported == set(), f"{target}: never seen"
        known = facets.excuses()["any"] | facets.excuses().get(target, {})
        assert losses <= set(known), f"{target}: without an excuse"


def _reported(target: str, case: Case) -> set[str]:
    encoder = penstock.encoder(target, **case.about.get("targets", {}).get(target, {}))
    running.encoded(encoder, case.expected(), sequential=running.row(target).sequential)
    codes = [finding.code for finding in encoder.diagnostics]
    return {code.removeprefix("loss-") for code in codes if code.startswith("loss-")}


def test_no_excuse_is_left_over() -> None:
    for target, rows in facets.excuses().items():
        targets = running.targets() if target == "any" else [target]
        written = {key for name in targets for key in penstock.encoder(name).losses}
        assert set(rows) - {"always"} <= written


def test_the_page_of_losses_is_current() -> None:
    assert (PROJECT / "docs/losses.md").read_text() == losses.page(), "python tools/losses.py > docs/losses.md"


def test_tables_of_reasons_hold_reasons() -> None:
    """A table named REASONS goes from a provider's word to ours, or from all of ours to a target's."""
    for module in [module for name in running.NAMES for module in modules(name)]:
        table: Any = getattr(module, "REASONS", None)
        if isinstance(table, dict):
            words = cast("dict[str, Any]", table)
            assert set(words.values()) <= REASONS or set(words) == REASONS, module.__name__


def test_fault_words_are_faults_and_spelled_as_they_are_looked_up() -> None:
    rules = error_rules()
    assert set(rules.codes.values()) | set(rules.statuses.values()) <= KINDS
    assert all(re.fullmatch("[a-z0-9]+", word) for word in rules.codes)
    assert {fault_kind(kind) for kind in KINDS - {"other"}} == KINDS - {"other"}


def test_tags_are_kebab_case_and_unique() -> None:
    tags = [event.__struct_config__.tag for event in ev.EVENTS]
    assert len(set(tags)) == len(tags)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", str(tag)) for tag in tags)
