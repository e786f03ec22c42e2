"""Statements that delete old rows of the journal.

The clock may have been set back: a row from the future was written before that, and its age is not known. It goes with
the first row that was written after it and is too old. The size is bounded by the order in which rows were written,
whatever the clock says.
"""

from __future__ import annotations

# The last old row is looked up before: in one statement, SQLite would do it after it has deleted that row.
LAST_OLD_ROW = "SELECT coalesce(max(id), 0) FROM turns WHERE time < ?"
DELETE_OLD_ROWS = "DELETE FROM turns WHERE time < ? OR (time > ? AND id < ?)"  # the age, now, the last old row
DELETE_FIRST_ROWS = "DELETE FROM turns WHERE id IN (SELECT id FROM turns ORDER BY id LIMIT ?)"
