"""Settings refuse what cannot work, and say which key."""

from __future__ import annotations

import pydantic
import pytest

from fairlead_messaging.server.settings import AccessModel, CassandraModel, MessagingSettings, contact_point
from fairlead_wire.validation.model import MODELS


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"http_listen": "0.0.0.0:1", "security": "insecure"}, "http_listen"),
        ({"http_listen": "127.example.com:1", "security": "insecure"}, "http_listen"),
        ({"http_listen": "nothing", "security": "insecure"}, "http_listen"),
        ({"http_listen": "127.0.0.1:70000", "security": "insecure"}, "http_listen"),
        ({"health_listen": "x", "security": "insecure"}, "health_listen"),
        ({"security": "mtls"}, "tls_ca"),
        ({"security": "mtls", "tls_ca": "a", "tls_cert": "b"}, "tls_key"),
        ({"security": "insecure", "default_ttl_seconds": 0}, "default_ttl_seconds"),
        ({"security": "insecure", "poll_limit_max": 0}, "poll_limit_max"),
        ({"security": "insecure", "system_topics": ["a:0"]}, "system_topics"),
        ({"security": "insecure", "system_topics": ["a b"]}, "system_topics"),
        ({"security": "insecure", "cache": {"max_bytes": -1}}, "max_bytes"),
        ({"security": "insecure", "cleanup": {"interval_seconds": 0}}, "interval_seconds"),
        ({"security": "insecure", "store": "paper"}, "store"),
        ({"security": "insecure", "store": "cassandra"}, "cassandra.contact_points: required"),
        ({"security": "insecure", "cassandra": {"contact_points": ["a:b"]}}, "host or host:port"),
        ({"security": "insecure", "cassandra": {"contact_points": ["[::1"]}}, "host or host:port"),
        ({"security": "insecure", "cassandra": {"consistency": "TWO"}}, "LOCAL_QUORUM, QUORUM, ALL"),
        ({"security": "insecure", "cassandra": {"keyspace": 'a"; DROP'}}, "keyspace"),
        (
            {"security": "insecure", "store": "cassandra", "cassandra": {"contact_points": ["a"], "username": "u"}},
            "cassandra.password_file: username and password_file go together",
        ),
        ({"security": "insecure", "bodies_bytes_max": 1000}, "bodies_bytes_max"),
        ({"security": "insecure", "pages_bytes_max": 1000}, "pages_bytes_max"),
        ({"security": "insecure", "long_polls_max": 0}, "long_polls_max"),
        ({"security": "insecure", "request_seconds_max": 0}, "request_seconds_max"),
        ({"security": "insecure", "clients": ["hub"]}, "clients"),
        ({"security": "insecure", "transactions": {"timeout_seconds_max": 0}}, "timeout_seconds_max"),
        ({"security": "insecure", "transactions": {"hold_up_seconds_max": 0}}, "hold_up_seconds_max"),
        (
            {"security": "insecure", "transactions": {"timeout_seconds_max": 600, "lifetime_seconds_max": 599}},
            "at least timeout_seconds_max (600)",
        ),
        ({"security": "insecure", "nonsense": 1}, "nonsense"),
    ],
)
def test_bad_values(keys: dict[str, object], named: str) -> None:
    assert named in "\n".join(map(str, MODELS.find(keys, MessagingSettings)))


# --- What the settings of Cassandra accept.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node", ("node", 9042)),
        ("10.0.0.1:19042", ("10.0.0.1", 19042)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 9042)),
        ("fe80::1", ("fe80::1", 9042)),
    ],
)
def test_contact_points(text: str, found: tuple[str, int]) -> None:
    assert contact_point(text) == found


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:0", "a:70000", "[::1", "[::1]x", "a:b"])
def test_what_is_no_contact_point(text: str) -> None:
    with pytest.raises(ValueError, match="host or host:port"):
        contact_point(text)


def test_consistency_in_any_case() -> None:
    assert CassandraModel(consistency="local_quorum").consistency == "LOCAL_QUORUM"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("subject", "serviceaccount:x", "subject: must be serviceaccount:NAMESPACE:NAME"),
        ("subject", "spiffe://fairlead/node/a", "nodes publish through the hub"),
        ("verbs", ["publish", "consum"], "did you mean consume"),
        ("topics", ["telemetry"], "topics[0]: must be namespace/name"),
        ("topics", ["!system/*"], "grants nothing"),
    ],
)
def test_what_would_grant_something_else_is_refused_with_its_key(key: str, value: object, said: str) -> None:
    """A table that is wrong by a letter must not wait for the first refusal."""
    whole = {"subject": "app", "verbs": ["publish"], "topics": ["default/*"], key: value}
    with pytest.raises(pydantic.ValidationError) as caught:
        AccessModel.model_validate(whole)
    assert said in str(caught.value)
