"""Planted secrets are found in every form, and what is harmless stays."""

from __future__ import annotations

import json

import pytest

from fairlead_cli import redaction

PLANTED = "hunter2hunter2"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.aHVudGVyMg"
KEY = f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED}\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "document",
    [
        {"password": PLANTED},
        {"spec": [{"dbPassphrase": PLANTED}]},
        {"env": [{"name": "MESSAGING_TOKEN", "value": PLANTED}]},
        {"kind": "Secret", "metadata": {"name": "a"}, "data": {"a": PLANTED}, "stringData": {"b": PLANTED}},
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"x": "{PLANTED}"}}'}}},
        {"args": [f"--password={PLANTED}"]},
        {"url": f"postgres://user:{PLANTED}@db:5432/x"},
        {"note": f"curl -H 'Authorization: Bearer {PLANTED}'"},
        {"note": KEY},
        {"apiKey": PLANTED},
        {"message": f"token fl1-abc-{PLANTED}-pin was used twice"},
    ],
)
def test_in_documents(document: dict[str, object]) -> None:
    """By the key's name, by what stands beside it, and by its own form."""
    assert PLANTED not in json.dumps(redaction.document(document))


@pytest.mark.parametrize(
    "line",
    [
        f"password={PLANTED}",
        f'{{"event": "login", "token": "{PLANTED}"}}',
        f"AWS_SECRET_ACCESS_KEY: {PLANTED}",
        f"authorization: bearer {PLANTED}",
        f"https://user:{PLANTED}@example.com/x",
        KEY,
        KEY.partition("-----END")[0],
    ],
)
def test_in_texts(line: str) -> None:
    """A key that is cut off is still one."""
    assert PLANTED not in redaction.text(f"before\n{line}\nafter")
    assert redaction.text(f"before\n{line}").startswith("before\n")
    assert JWT not in redaction.text(f"found {JWT} in it")


def test_what_is_harmless_stays() -> None:
    """Names of Secrets, numbers, reasons, addresses: without these a bundle would help in nothing."""
    kept = {
        "metadata": {"name": "edge-1", "resourceVersion": "77"},
        "volumes": [{"secret": {"secretName": "hub-tls"}}],
        "status": {"connected": True, "objectsHeld": 7, "message": "parked: the store is full"},
        "hub": "wss://hub.example.com:10000",
    }
    assert redaction.document(kept) == kept
    line = "2026-11-22 link_down reason=refused hub=wss://hub.example.com:10000"
    assert redaction.text(line) == line


def test_absurd_depth() -> None:
    """Hidden instead of an error."""
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    assert redaction.HIDDEN in json.dumps(redaction.document(deep))
