"""Numbers of journal rows as callers see them: `upto` of the list, `after` of the live feed.

Row numbers are counted over all tenants. A caller that sees only its own turns must not learn from them how many turns
others made, so it gets them encrypted. Who sees all turns gets them as they are.
"""

from __future__ import annotations

from hashlib import blake2b

_HALF_BITS = 26  # two halves have 52 bits: JavaScript reads larger numbers inexactly
_MASK = (1 << _HALF_BITS) - 1
_ROUNDS = 4


class RowBounds:
    """Encrypts row numbers for a tenant, and decrypts them. `secret`: the same in all processes of a gateway."""

    def __init__(self, secret: str) -> None:
        self._key = blake2b(secret.encode(), digest_size=32, person=b"row bounds").digest()

    def encode(self, number: int, tenant: str | None) -> int:
        """Returns a row number for a caller. `tenant`: whose turns it sees; None means all."""
        if tenant is None:
            return number
        left, right = number >> _HALF_BITS & _MASK, number & _MASK
        for step in range(_ROUNDS):
            left, right = right, left ^ self._mix(step, right, tenant)
        return left << _HALF_BITS | right

    def decode(self, number: int, tenant: str | None) -> int:
        """Returns the row number that `encode` has encoded. A number that a caller made up gives any number."""
        if tenant is None:
            return number
        left, right = number >> _HALF_BITS & _MASK, number & _MASK
        for step in reversed(range(_ROUNDS)):
            left, right = right ^ self._mix(step, left, tenant), left
        return left << _HALF_BITS | right

    def _mix(self, step: int, half: int, tenant: str) -> int:
        text = f"{step} {half} {tenant}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=4, key=self._key).digest()) & _MASK
