"""Settings refuse what cannot work, and say which key."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.settings import MessagingSettings
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
    """The key, or what to do, is in the reason."""
    assert named in "\n".join(map(str, MODELS.find(keys, MessagingSettings)))
