"""A secret that was replaced or removed stays one: turns in memory still hold it."""

from __future__ import annotations

from penstock._gateway.known_secrets import MAX_FORMER, KnownSecrets
from penstock._gateway.services import Services
from penstock.gateway import GatewayConfig


def test_former_secrets_follow_those_in_use() -> None:
    current = ["first-key", "second-key"]
    known = KnownSecrets({}, lambda: current)
    assert known.values() == ("first-key", "second-key")
    current[:] = ["third-key", "second-key"]
    assert known.values() == ("first-key", "second-key"), "nothing said that there are others"
    known.refresh()
    assert known.values() == ("third-key", "second-key", "first-key")
    current[:] = ["first-key"]
    known.refresh()
    assert known.values() == ("first-key", "third-key", "second-key"), "a secret that is used again is not former"


def test_the_newest_former_secrets_are_kept() -> None:
    current = [""]
    known = KnownSecrets({}, lambda: current)
    for number in range(MAX_FORMER + 50):
        current[:] = [f"key-{number}"]
        known.refresh()
        known.values()
    assert known.values() == tuple(f"key-{number}" for number in (MAX_FORMER + 49, *range(49, MAX_FORMER + 49)))


def test_an_own_secret_is_always_in_use() -> None:
    known = KnownSecrets({}, tuple)
    assert known.values() == ()
    known.add("token")
    assert known.values() == ("token",)


def test_secrets_are_read_while_they_are_listed() -> None:
    """A key file that cannot be read is logged, and each line of the log is redacted."""
    nested: list[tuple[str, ...]] = []

    def list_current() -> list[str]:
        nested.append(known.values())
        return ["key"]

    known = KnownSecrets({}, list_current)
    assert known.values() == ("key",)
    assert nested == [()]


def test_a_changed_variable_stays_a_secret_after_a_reload() -> None:
    env = {"MY_API_KEY": "a-first-value"}
    services = Services(GatewayConfig(), env=env)
    assert "a-first-value" in services.secrets
    env["MY_API_KEY"] = "another-value"
    services.reload(GatewayConfig())
    assert {"a-first-value", "another-value"} <= set(services.secrets)
