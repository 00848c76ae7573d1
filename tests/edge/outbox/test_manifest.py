"""The manifest: schema gates, fields, quarantine, and the union of several objects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead_edge.outbox import manifest
from fairlead_edge.outbox.manifest import Manifest, ManifestError, RouteProblem, parse
from fairlead_wire.validation import route_manifest

UP = "FROM /* INTO $upstream"


def document(routes: Any = None, *, version: Any = "1.1", ttl: Any = 20, **more: Any) -> dict[str, Any]:
    """A manifest with these routes."""
    routes = {"r": UP} if routes is None else routes
    return {"schemaVersion": version, "routes": routes, "storeAndForwardConfiguration": {"timeToLiveSecs": ttl}, **more}


def refusal(value: Any) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as refused:
        parse(value)
    return refused.value.reasons


# ── the document ──


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.1.0", "1.2", "1.3", "1.3.0.1"])
def test_schema_versions_that_are_read(version: str) -> None:
    assert [route.name for route in parse(document(version=version)).routes] == ["r"]


@pytest.mark.parametrize(
    "version", [None, "", "1", "2.0", "1.4", "0.9", "1.x", "v1.1", "1.1-beta", 1.1, 1, "1.1.1.1.1"]
)
def test_schema_versions_that_are_refused(version: Any) -> None:
    (reason,) = refusal(document(version=version))
    assert reason.startswith("schemaVersion: ") and reason.endswith("1.1 to 1.3 are known, and in a file 1.0")


def test_what_must_be_there() -> None:
    assert [reason.partition(":")[0] for reason in refusal({})] == [
        "schemaVersion",
        "routes",
        "storeAndForwardConfiguration",
    ]
    assert refusal(document([])) == ("routes: expected an object of names and routes",)
    assert refusal(document(storeAndForwardConfiguration=[])) == (
        "storeAndForwardConfiguration: expected an object; write for example {timeToLiveSecs: 7200}",
    )


def test_routes_may_be_missing_in_1_0_and_empty_always() -> None:
    old = document(version="1.0")
    del old["routes"]
    assert parse(old) == parse(document({})) == Manifest(default_ttl_seconds=20)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "manifest: not JSON"),
        (b"[]", "manifest: expected an object"),
        (b"\xff", "manifest: not JSON"),
        (b'{"a": NaN}', "manifest: not JSON"),
        (b'{"a": 1} x', "manifest: not JSON"),
        (b"[" * 100_000, "manifest: nested too deeply"),
        (b" " * (manifest.MANIFEST_BYTES_MAX + 1), "manifest: 2097153 bytes are too many"),
    ],
)
def test_bytes_that_are_no_manifest(raw: bytes, reason: str) -> None:
    (found,) = refusal(raw)
    assert found.startswith(reason)


def test_too_many_routes() -> None:
    (reason,) = refusal(document({f"r{number}": UP for number in range(route_manifest.ROUTES_MAX + 1)}))
    assert reason == "routes: 1025 are too many, 1024 is the limit"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: inner,
        lambda inner: {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "spec": inner},
        lambda inner: {"$edgeHub": {"properties.desired": inner}},
        lambda inner: {"modulesContent": {"$edgeHub": {"properties.desired": inner}}},
    ],
)
def test_a_manifest_in_its_wrappings(wrap: Any) -> None:
    wrapped = wrap(document())
    assert parse(wrapped) == parse(json.dumps(wrapped)) == parse(json.dumps(wrapped).encode())
    assert [route.name for route in parse(wrapped).routes] == ["r"]


def test_other_sections_are_left_alone() -> None:
    assert parse(document(version="1.3", mqttBroker={}, integrity={}, **{"$version": 7})).quarantined == ()


# ── routes ──


def test_string_and_object_form() -> None:
    parsed = parse(
        document(
            {
                "s": UP,
                "o": {"route": UP, "priority": 0, "timeToLiveSecs": 60, "topic": "plant/alarms"},
                "d": {"route": UP},
            }
        )
    )
    found = [(route.name, route.priority, route.ttl_seconds, route.topic) for route in parsed.routes]
    assert found == [
        ("s", 2_000_000_000, 20, "default/telemetry"),
        ("o", 0, 60, "plant/alarms"),
        ("d", 2_000_000_000, 20, "default/telemetry"),
    ]


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        ({"priority": 1}, "route: is missing or empty"),
        ({"route": " "}, "route: is missing or empty"),
        ("", "route: is missing or empty"),
        ([UP], "route: expected text"),
        (5, "route: expected text"),
        ({"route": UP, "priority": 10}, "priority: must be between 0 (most urgent) and 9, but is 10"),
        (
            {"route": UP, "priority": 2_000_000_000},
            "priority: must be between 0 (most urgent) and 9, but is 2000000000; leave it out for the default",
        ),
        ({"route": UP, "priority": -1}, "priority: must be between 0"),
        ({"route": UP, "priority": 1.0}, "priority: must be between 0"),
        ({"route": UP, "priority": True}, "priority: must be between 0"),
        ({"route": UP, "priority": "1"}, "priority: must be between 0"),
        (
            {"route": UP, "timeToLiveSecs": -1},
            "timeToLiveSecs: must be a whole number of seconds from 0 (inherit) to 4294967295, but is -1",
        ),
        ({"route": UP, "timeToLiveSecs": 4_294_967_296}, "timeToLiveSecs: must be a whole number of seconds from 0"),
        ({"route": UP, "topic": "alarms"}, "topic: expected namespace/name"),
        ({"route": UP, "topic": "a/b/c"}, "topic: expected namespace/name"),
        ({"route": UP, "topic": 5}, "topic: expected namespace/name"),
        ({"route": UP, "topic": "system/events"}, "topic: namespace system is reserved for Fairlead's own events"),
    ],
)
def test_a_bad_field_quarantines_its_route_alone(route: Any, reason: str) -> None:
    parsed = parse(document({"good": UP, "bad": route}))
    assert [each.name for each in parsed.routes] == ["good"]
    (error,) = parsed.quarantined
    assert error.name == "bad" and error.message.startswith(reason)
    assert error.line is None


@pytest.mark.parametrize("name", ["", "a.b", "a b", "$a", "a#b"])
def test_names_that_azure_iot_edge_does_not_take_are_warned_of(name: str) -> None:
    """An API server accepts them, because its schemas do not restrict names, so they run."""
    parsed = parse(document({name: UP}))
    assert [each.name for each in parsed.routes] == [name]
    assert [each.message.partition(":")[0] for each in parsed.warnings] == ["name"]


def test_null_is_no_route() -> None:
    """This is how a twin deletes a member; an API server accepts it, too."""
    assert parse(document({"gone": None, "r": UP})) == parse(document())


def test_a_bad_text_is_quarantined_with_its_place() -> None:
    parsed = parse(document({"r": {"route": "FROM /*\nWHERE temp > 5\nINTO $cloud", "priority": 77}, "good": UP}))
    assert [route.name for route in parsed.routes] == ["good"]
    assert [(error.line, error.column, error.end_column) for error in parsed.quarantined] == [
        (None, None, None),
        (2, 12, 13),
        (3, 6, 12),
    ]


def test_the_error_as_json() -> None:

    placed = RouteProblem(name="r", message="m", line=1, column=2, end_column=3)
    assert msgspec.to_builtins(placed) == {"name": "r", "message": "m", "line": 1, "column": 2, "endColumn": 3}
    assert msgspec.to_builtins(RouteProblem(name="r", message="m")) == {"name": "r", "message": "m"}


def test_a_field_that_is_wrong_is_named() -> None:
    fields = {"route": UP, "priority": 77, "timeToLiveSecs": -1, "topic": "no topic", "timeToLive": 5}
    parsed = parse(document({"r": fields, "text": "FROM"}))
    assert [(bad.name, bad.key, bool(bad.line)) for bad in parsed.quarantined] == [
        ("r", "priority", False),
        ("r", "timeToLiveSecs", False),
        ("r", "topic", False),
        ("text", "", True),
    ]
    assert [bad.key for bad in parsed.warnings] == ["timeToLive"]
    assert all(bad.message.startswith(f"{bad.key}: ") for bad in (*parsed.quarantined, *parsed.warnings) if bad.key)


def test_schema_1_0_knows_strings_alone() -> None:
    parsed = parse(document({"gone": " ", "object": {"route": UP}, "r": UP}, version="1.0"))
    assert [route.name for route in parsed.routes] == ["r"]
    (error,) = parsed.quarantined
    assert (error.name, error.message) == ("object", "the object form needs schemaVersion 1.1 or newer")


@pytest.mark.parametrize(
    ("configured", "route", "resolved"),
    [(20, 0, 20), (20, 5, 5), (0, 0, 7200), (None, 0, 7200), (-1, 0, None), (-1, 5, 5), (20, None, 20)],
)
def test_time_to_live(configured: Any, route: Any, resolved: int | None) -> None:
    (found,) = parse(document({"r": {"route": UP, "timeToLiveSecs": route}}, ttl=configured)).routes
    assert found.ttl_seconds == resolved


@pytest.mark.parametrize("ttl", ["20", 1.5, True, 4_294_967_296])
def test_a_bad_global_time_to_live_refuses_the_manifest(ttl: Any) -> None:
    (reason,) = refusal(document(ttl=ttl))
    assert reason.startswith("storeAndForwardConfiguration.timeToLiveSecs: ")


BROKERED = 'FROM /messages/* INTO BrokeredEndpoint("/modules/a/inputs/b")'


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (UP, []),
        ({"route": UP, "topic": "a/b", "priority": 1, "timeToLiveSecs": 5}, []),
        ({"route": UP, "timeToLive": 60}, ["timeToLive: unknown key, it has no effect; did you mean timeToLiveSecs?"]),
        ({"route": UP, "x" * 900: 60}, [f"{'x' * 64}: unknown key, it has no effect"]),
        ({"route": BROKERED, "topic": "a/b"}, ["topic: has no effect, because the route does not go to $upstream"]),
        ("FROM /messages/modules/*/outputs/o INTO $upstream", ["a * counts only at the end of a source"]),
        ({"route": "FROM nowhere", "ttl": 1}, ["ttl: unknown key, it has no effect"]),
    ],
    ids=["text", "all keys", "misspelled", "long", "brokered", "star", "bad"],
)
def test_what_is_accepted_and_perhaps_not_meant_is_warned_of(value: Any, texts: list[str]) -> None:
    found = parse(document({"r": value})).warnings
    assert [each.name for each in found] == ["r"] * len(texts)
    assert all(each.message.startswith(text) for each, text in zip(found, texts, strict=True))


# ---- A route that stands twice in a manifest's text ------------------------------------------------------------------


OLD, NEW = '"FROM /messages/* INTO $upstream"', '{"route": "FROM /messages/* INTO $upstream", "priority": 3}'


@pytest.mark.parametrize(
    ("first", "second", "priority"), [(OLD, NEW, 3), (NEW, OLD, 3), (NEW, NEW.replace("3", "4"), 4)]
)
def test_the_new_format_counts_wherever_it_stands(first: str, second: str, priority: int) -> None:
    text = (
        f'{{"schemaVersion": "1.1", "routes": {{"r": {first}, "r": {second}}}, "storeAndForwardConfiguration": {{}}}}'
    )
    [route] = manifest.parse(text.encode()).routes
    assert route.priority == priority


def test_an_unknown_key_beside_the_global_time_to_live_is_said() -> None:
    whole = {"schemaVersion": "1.1", "routes": {}, "storeAndForwardConfiguration": {"timeToLiveSec": 7200}}
    [warning] = parse(whole).warnings
    assert warning.message == "timeToLiveSec: unknown key, it has no effect; did you mean timeToLiveSecs?"
