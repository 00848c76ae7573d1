"""Differences of two versions, for people."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from fairlead_cli.commands.cluster import diff

KEY = b"k" * 32


def config_map(value: str, **metadata: Any) -> dict[str, Any]:
    names = {"name": "prices", "namespace": "shop", "uid": "u", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "data": {"a": value}}


def test_what_each_side_counts_for_itself_is_no_difference() -> None:
    """Versions, the hub's annotations, status, and the order of keys."""
    ours = config_map("1", resourceVersion="7", annotations={"fairlead.dev/paused": "x"})
    theirs = dict(reversed(config_map("1", resourceVersion="3", annotations={"fairlead.dev/age-seconds": "9"}).items()))
    assert diff.unified(ours, {**theirs, "status": {}}, ("cluster", "edge-1"), KEY) == []


def test_a_difference() -> None:
    """As diff -u shows it."""
    found = diff.unified(config_map("1"), config_map("2"), ("cluster", "edge-1"), KEY)
    assert found[:2] == ["--- cluster", "+++ edge-1"]
    assert [line for line in found[3:] if line[0] in "+-"] == ['-  a: "1"', '+  a: "2"']


def test_an_object_on_one_side_only() -> None:
    """All of it."""
    found = diff.unified(config_map("1"), None, ("cluster", "edge-1"), KEY)
    assert found and all(line.startswith("-") for line in found[3:])


def test_secrets_are_compared_and_never_shown() -> None:
    """Two values differ by their digests."""
    one, two = (
        {**config_map(""), "kind": "Secret", "data": {"p": base64.b64encode(text).decode()}}
        for text in (b"hunter2", b"x")
    )
    shown = "\n".join(diff.unified(one, two, ("cluster", "edge-1"), KEY))
    assert "(hidden: 7 bytes, digest " in shown and "(hidden: 1 bytes, digest " in shown
    assert "hunter2" not in shown and base64.b64encode(b"hunter2").decode() not in shown


def test_a_digest_cannot_be_looked_up() -> None:
    """Of a short password a plain digest would tell which it is; with another key it is another one."""
    secret = {**config_map(""), "kind": "Secret", "data": {"p": base64.b64encode(b"1234").decode()}}
    first, again, other = (diff.unified(secret, None, ("a", "b"), key) for key in (KEY, KEY, b"x" * 32))
    assert first == again != other
    assert hashlib.sha256(b"1234").hexdigest()[:12] not in "\n".join(first)


def test_what_kubectl_notes_is_not_shown() -> None:
    """The annotation of `kubectl apply` holds a Secret's values once more."""
    noted = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData": {"p": "hunter2"}}'}
    secret = {**config_map("", annotations=noted), "kind": "Secret", "data": {}}
    assert "hunter2" not in "\n".join(diff.unified(secret, None, ("cluster", "edge-1"), KEY))
