"""For tests of programs that talk to models: an upstream that says what you script, with any fault you like.

Public, and what penstock's own tests use. `Upstream` and `scripted` need aiohttp (the extra `client`).
"""

from penstock.testing.replies import Reply, cut, cuts
from penstock.testing.upstream import Answer, Seen, Upstream, scripted
from penstock.testing.wire_encoding import error_body, media, speak

__all__ = ["Answer", "Reply", "Seen", "Upstream", "cut", "cuts", "error_body", "media", "scripted", "speak"]
