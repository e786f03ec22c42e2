"""No regular expression of the code base takes more than linear time, whatever text it is given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.growth import ENOUGH, LARGEST, RATIO, growth, seconds
from tests.support.pattern_inputs import Input, inputs
from tests.support.patterns import FACTORIES, Found, collect, unnamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

SMALL, LARGE = 1_000, 4_000  # characters that tell whether an input is worth a closer look
STEEP = 6.0  # times that four times the text may take; squared, it is sixteen
BRIEF = 5e-5  # seconds that are too short to compare
FOUND = collect()


def work(found: Found, method: str, one: Input) -> Callable[[int], Callable[[], Any]]:
    """The use of an expression on an input of a size."""
    call: Any = getattr(found.pattern, method)
    empty: Any = "" if isinstance(found.pattern.pattern, str) else b""

    def make(size: int) -> Callable[[], Any]:
        text: Any = one.text(size)
        text = text if empty == "" else text.encode("utf-8", "surrogatepass")
        if method == "sub":
            return lambda: call(empty, text)
        return (lambda: sum(1 for _ in call(text))) if method == "finditer" else lambda: call(text)

    return make


def timed(found: Found) -> Iterator[tuple[float, bool, str, Input]]:
    """Each input of each method: how long it takes, and whether its time grows steeply."""
    for method in found.methods:
        for one in inputs(found.pattern):
            make = work(found, method, one)
            large = seconds(make(LARGE), 1)
            yield large, large > BRIEF and large > STEEP * seconds(make(SMALL)), method, one


def ratio_of(found: Found, large: float, method: str, one: Input) -> tuple[float, str]:
    """How time grows with twice the text, and what to say of it. `large`: what the screening took."""
    first = int(LARGE * min(max(0.7 * ENOUGH / max(large, 1e-9), 0.25), LARGEST / LARGE / 2))
    ratio, size = growth(work(found, method, one), first)
    said = (
        f"{found.place}: {method} of {found.pattern.pattern!r} on {one}: {2 * size} characters take {ratio:.1f} times"
    )
    return ratio, f"{said} as long as {size}"


def name_of(found: Found) -> str:
    return found.place.removeprefix("penstock.").removeprefix("src/penstock/")


@pytest.mark.finding("SEC-3")
@pytest.mark.parametrize("found", FOUND, ids=name_of)
def test_time_grows_with_the_text(found: Found) -> None:
    """Every input is tried at two sizes; those whose time grows steeply are measured closely."""
    steep = sorted((row for row in timed(found) if row[1]), key=lambda row: -row[0])
    for large, _, method, one in steep[:4]:
        ratio, said = ratio_of(found, large, method, one)
        assert ratio <= RATIO, said


@pytest.mark.exhaustive
@pytest.mark.finding("SEC-3")
@pytest.mark.parametrize("found", FOUND, ids=name_of)
def test_the_slowest_input_takes_linear_time(found: Found) -> None:
    """The slowest input of each method is measured closely, with runs of 10 ms, however it looks at first."""
    slowest: dict[str, tuple[float, Input]] = {}
    for large, _, method, one in timed(found):
        slowest[method] = max(slowest.get(method, (large, one)), (large, one), key=lambda row: row[0])
    for method, (large, one) in slowest.items():
        ratio, said = ratio_of(found, large, method, one)
        assert ratio <= RATIO, said


def test_every_expression_is_found() -> None:
    """One that is made of data inside a function needs a factory in `tests/support/patterns.py`."""
    assert unnamed() == set(FACTORIES)
    places = {found.place for found in FOUND}
    assert {
        "penstock._redaction._USERINFO",
        "penstock._framing.sse._FULLER",
        "penstock._framing.sse._find_common",
        "_vendor_errors.py",
    } <= places
    assert any(place.startswith("vscode/src/") for place in places)
    assert any(place.startswith("web/src/") for place in places)


@pytest.mark.parametrize(
    "text",
    [
        r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@:]*:?[^\s/@]*@", r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}",
        r"\s+$", r"\d+(?:,\d+)*;", r"<title[^>]*>(.*?)</title>", r"(?m)^data: (\{.*?\"choices\":\[\].*)\n\n",
        r"/v1/(?:(?:.*/)?models/)?(?P<model>.+):(?P<method>[A-Za-z]+)$",
    ],
)  # fmt: skip
def test_a_bad_expression_is_caught(text: str) -> None:
    """The inputs are hard enough: these expressions are known to be quadratic or worse."""
    found = Found("here", re.compile(text), ("search",))
    assert any(_is_square(work(found, "search", one)) for one in inputs(found.pattern))


def _is_square(make: Callable[[int], Callable[[], Any]]) -> bool:
    """Four times the text takes sixteen times as long, or nearly."""
    small, large = seconds(make(SMALL // 4)), seconds(make(SMALL))
    return large > BRIEF and large > 10 * small
