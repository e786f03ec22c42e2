"""Why the request of a turn is not shown, or not as a whole."""

from __future__ import annotations

CUT = "the request is too long: only its beginning is kept"
CUT_UNREADABLE = f"{CUT}, and a part cannot be read as the whole"
CUT_UNCOUNTABLE = f"{CUT}, and a part cannot be counted as the whole"
NO_REQUEST = "no body of the request was read, or it was empty"
NO_REQUEST_IN_FILE = "the file has no request"
