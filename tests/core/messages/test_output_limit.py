"""The limit of output tokens."""

from __future__ import annotations

from penstock import request as rq
from tests.support.each_case import each
from tests.support.request_passes import Diagnostics, limit_output
from tests.support.talks import codes


@each(
    "asked, maximum, minimum, limit, found",
    [
        (None, None, 0, None, []), (None, None, 16, None, []), (None, 8192, 0, None, []), (None, 20, 16, None, []),
        (1000, 8192, 0, 1000, []), (1000, None, 0, 1000, []), (5, 8192, 16, 16, ["output-limit"]),
        (9999, 8192, 0, 8192, ["output-limit"]), (0, 8192, 16, 16, ["output-limit"]),
    ],
)  # fmt: skip
def test_only_the_callers_limit_is_sent(
    asked: int | None, maximum: int | None, minimum: int, limit: int | None, found: list[str]
) -> None:
    notes = Diagnostics()
    request = rq.Request(settings=rq.Settings(max_output=asked))
    made = limit_output(request, notes, maximum=maximum, minimum=minimum)
    assert made.settings.max_output == limit
    assert codes(notes) == found
    assert request.settings.max_output == asked


@each("maximum, minimum, limit", [(8192, 0, 4096), (20, 16, 16), (9, 16, 16)])
def test_a_required_limit_that_is_not_given_is_half_of_the_models(maximum: int, minimum: int, limit: int) -> None:
    notes = Diagnostics()
    made = limit_output(rq.Request(), notes, maximum=maximum, minimum=minimum, required=True)
    assert made.settings.max_output == limit
    (said,) = notes
    assert said.code == "output-limit"
    assert said.message.endswith(f"was not given; using {limit} of the model's {maximum}")


def test_a_budget_inside_the_limit_leaves_room_to_answer() -> None:
    request = rq.Request(settings=rq.Settings(max_output=2000, budget=4000))
    assert limit_output(request, Diagnostics(), inside=True).settings.max_output == 5024
    assert limit_output(request, Diagnostics()) is request
