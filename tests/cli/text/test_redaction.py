"""Planted secrets are found in every form, and what is harmless stays."""

from __future__ import annotations

import json

import pytest

from fairlead_cli.commands import bundle

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
        {"args": ["--password", PLANTED]},
        {"command": ["sh", "-c", f"run --api-key {PLANTED}"]},
        {"tokens": [PLANTED]},
        {"env": [{"name": "DB_PASS", "value": PLANTED}]},
        {"kind": "Secret", "data": {"a": PLANTED}},
    ],
)
def test_in_documents(document: dict[str, object]) -> None:
    """By the key's name, by what stands beside it, and by its own form."""
    assert PLANTED not in json.dumps(bundle.document(document))


@pytest.mark.parametrize(
    "line",
    [
        f"password={PLANTED}",
        f'{{"event": "login", "token": "{PLANTED}"}}',
        f"AWS_SECRET_ACCESS_KEY: {PLANTED}",
        f"authorization: bearer {PLANTED}",
        f"Authorization: Token {PLANTED}",
        f'{{"headers": {{"Cookie": "session={PLANTED}"}}}}',
        f'{{"body": "{{\\"password\\": \\"{PLANTED}\\"}}"}}',
        f'password="a\\"{PLANTED}"',
        f"GET /hook?sig={PLANTED}",
        f"started with --token {PLANTED}",
        f"https://user:{PLANTED}@example.com/x",
        KEY,
        KEY.partition("-----END")[0],
    ],
)
def test_in_texts(line: str) -> None:
    """A key that is cut off is still one."""
    assert PLANTED not in bundle.text(f"before\n{line}\nafter")
    assert bundle.text(f"before\n{line}").startswith("before\n")
    assert JWT not in bundle.text(f"found {JWT} in it")


def test_what_is_harmless_stays() -> None:
    """Names of Secrets, numbers, reasons, addresses: without these a bundle would help in nothing."""
    kept = {
        "metadata": {"name": "edge-1", "resourceVersion": "77"},
        "volumes": [{"secret": {"secretName": "hub-tls"}}],
        "status": {"connected": True, "objectsHeld": 7, "message": "parked: the store is full"},
        "hub": "wss://hub.example.com:10000",
    }
    assert bundle.document(kept) == kept
    line = "2026-11-22 link_down reason=refused hub=wss://hub.example.com:10000"
    assert bundle.text(line) == line


@pytest.mark.parametrize("word", ["a", "token", "--token", "eyJ-", "x://", "-----BEGIN "])
def test_a_line_of_any_length(word: str) -> None:
    """A log may hold a file in base64 on one line: the time must grow as its length does, not as its square."""
    line = word * (200_000 // len(word))
    assert bundle.text(line) == line


def test_names_of_secrets_stay() -> None:
    """What a Pod mounts, and which object an Event is about."""
    kept = {
        "imagePullSecrets": [{"name": "registry"}],
        "involvedObject": {"kind": "Secret", "name": "hub-tls"},
        "args": ["--token-file", "/etc/fairlead/token", "--node", "edge-1"],
    }
    assert bundle.document(kept) == kept


def test_absurd_depth() -> None:
    """Hidden instead of an error."""
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    assert bundle.HIDDEN in json.dumps(bundle.document(deep))
