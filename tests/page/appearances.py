"""In which themes and widths a view is looked at.

Most tests look at their view in the dark theme at 1280 pixels. The tests of themes and widths add what differs most from
that, the light theme on a phone; `make nightly` runs all combinations.
"""

from __future__ import annotations

import pytest

THEMES = ["light", pytest.param("dark", marks=pytest.mark.nightly)]
