"""Requests, read: the two forms that are taken, and every way to be wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.statuses import patch
from fairlead_edge.objects.statuses.patch import APPLY, MERGE, BadYaml, PatchRefused, load_yaml

NAMED = {"fieldManager": "me"}
WHOLE = {"apiVersion": "v1", "kind": "ConfigMap", "status": {"a": 1}}


def body(**more: Any) -> bytes:
    return msgspec.json.encode(more)


def refused(content_type: str, content: bytes, query: dict[str, str] | None = None) -> tuple[int, str]:
    with pytest.raises(PatchRefused) as caught:
        patch.read(content_type, content, query or {})
    return caught.value.status, str(caught.value)


def test_a_merge_patch_is_named_by_its_program() -> None:
    found = patch.read(f"{MERGE}; charset=utf-8", body(status={"a": None}), {}, "kubectl/v1.36 (linux)")
    assert (found.operation, found.manager, found.status, found.force) == ("Update", "kubectl", {"a": None}, False)
    assert patch.read(MERGE, body(), {}).status is msgspec.UNSET
    assert patch.read(MERGE, b"{}", {}).manager == patch.DEFAULT_MANAGER


def test_what_is_applied_may_be_yaml() -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nspec: {}\nmetadata:\n  name: a\n  creationTimestamp:\n"
    text += b"status: {when: 2020-01-01}\n"
    found = patch.read(APPLY, text, {**NAMED, "force": "true", "dryRun": "All"})
    assert (found.operation, found.status, found.force, found.dry_run) == ("Apply", {"when": "2020-01-01"}, True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content_type", "content", "query", "status", "says"),
    [
        ("application/strategic-merge-patch+json", b"{}", {}, 415, "merge"),
        ("application/json-patch+json", b"[]", {}, 415, "merge"),
        ("", b"{}", {}, 415, "no content type"),
        (MERGE, b"{", {}, 400, "not JSON"),
        (MERGE, b"a: 1", {}, 400, "not JSON"),
        (MERGE, b"[]", {}, 400, "object"),
        (MERGE, b"\xff", {}, 400, "not JSON"),
        (MERGE, b"[" * 100_000, {}, 400, "not JSON"),
        (MERGE, b" " * (patch.BODY_BYTES_MAX + 1), {}, 413, "limit"),
        (MERGE, b"{}", {"force": "true"}, 422, "force"),
        (MERGE, b"{}", {"dryRun": "Some"}, 422, "dryRun"),
        (MERGE, b"{}", {"fieldManager": "a\nb"}, 422, "fieldManager"),
        (MERGE, b"{}", {"fieldManager": "a" * 129}, 422, "fieldManager"),
        (MERGE, body(status=1), {}, 422, "status"),
        (MERGE, body(spec={"a": 1}), {}, 422, "spec"),
        (MERGE, body(metadata={"labels": {"a": "b"}}), {}, 422, "metadata.labels"),
        (MERGE, body(metadata=5), {}, 400, "metadata"),
        (MERGE, body(metadata={"name": 5}), {}, 400, "name"),
        (MERGE, body(kind=5), {}, 400, "kind"),
        (MERGE, b'{"status":' + b'{"a":' * 64 + b"1" + b"}" * 64 + b"}", {}, 422, "deeper"),
        (APPLY, body(**WHOLE), {}, 422, "fieldManager"),
        (APPLY, body(status={}), NAMED, 400, "apiVersion"),
        (APPLY, b"a: &x [1]\nb: *x", NAMED, 400, "references"),
        (APPLY, b"[" * 100_000, NAMED, 400, "YAML"),
        (MERGE, rb'{"status":{"a":"\ud800 and more"}}', {}, 400, "not JSON"),
        (APPLY, rb'{a: "\ud800"}', NAMED, 400, "Unicode"),
        (APPLY, b"{a: 0x" + b"f" * 5000 + b"}", NAMED, 400, "number"),
        (APPLY, b"{a: 1" + b":1" * 5000 + b"}", NAMED, 400, "number"),
    ],
)
def test_what_is_wrong_is_said(
    content_type: str, content: bytes, query: dict[str, str], status: int, says: str
) -> None:
    found, text = refused(content_type, content, query)
    assert found == status and says in text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"uid": "other"}, 409),
        ({"resource_version": "8"}, 409),
        ({"name": "b"}, 400),
        ({"namespace": "b"}, 400),
        ({"kind": "Secret"}, 400),
        ({"api_version": "v2"}, 400),
    ],
)
def test_it_must_be_about_the_object(change: dict[str, str], status: int) -> None:
    there = held(config_map("a"), local_version=7)
    same = patch.StatusPatch(
        operation="Update", manager="me", name="a", namespace="shop", uid=there.uid, resource_version="7",
        api_version="v1", kind="ConfigMap",
    )  # fmt: skip
    patch.check_identity(same, there, "ConfigMap")
    with pytest.raises(PatchRefused) as caught:
        patch.check_identity(msgspec.structs.replace(same, **change), there, "ConfigMap")
    assert caught.value.status == status


# ---- YAML becomes values of JSON, and nothing else ------------------------------------------------


def test_values_are_those_of_json() -> None:
    assert load_yaml(b"a: [1, 2.5, yes, ~, 2020-01-01]") == {"a": [1, 2.5, True, None, "2020-01-01"]}


@pytest.mark.parametrize(
    "text",
    [
        b"a: &x 1\nb: *x",
        b"1: a",
        b"a: .nan",
        b"a: .inf",
        b"a: !!binary aGk=",
        b"!!python/name:os.system",
        b"a: [",
        b"\xff",
    ],
)
def test_others_are_refused(text: bytes) -> None:
    with pytest.raises(BadYaml):
        load_yaml(text)
