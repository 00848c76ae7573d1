"""`fairlead routes`: batch answers, and mistakes shown in place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from fairlead_cli import main
from fairlead_cli.commands import routes
from fairlead_cli.commands.routes import answer_dry_run
from fairlead_edge.outbox import publishing
from fairlead_edge.outbox.manifest import parse as parse_manifest
from fairlead_edge.outbox.router import Router

SAMPLE = {
    "schemaVersion": "1.1",
    "routes": {
        "good": "FROM /messages/* WHERE as_number(temp) > 5 INTO $upstream",
        "bad": 'FROM /messages/* WHERE kind = "a" AND\n temp > 5 INTO $upstream',
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}


def run(*arguments: str, lines: list[Any] | None = None) -> Result:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines or [])
    return CliRunner().invoke(main.build(), ["routes", *arguments], input=text)


def answers(*arguments: str, lines: list[Any]) -> list[dict[str, Any]]:
    done = run(*arguments, lines=lines)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def manifest(**named: Any) -> dict[str, Any]:
    return {**SAMPLE, "routes": named}


# ── eval ──


def test_eval() -> None:
    of = {"properties": {"temp": "21", "kind": None}}
    assert answers(
        "eval",
        lines=[
            {"condition": "as_number(temp) > 20", "source": "/messages", "message": of},
            {"condition": "as_number(temp) > 30", "message": of},
            {"condition": "kind = 'x'", "message": of},
            {"condition": "temp > 5"},
            {"condition": "twin_change_includes(tags.a)", "source": "/twinChangeNotifications"},
        ],
    ) == [
        {"result": True},
        {"result": False},
        {"result": "undefined"},
        {
            "error": [
                {
                    "message": "> compares two values of the same type, but temp is always text and 5 is a number; "
                    "did you mean as_number(temp)?",
                    "line": 1,
                    "column": 6,
                    "endColumn": 7,
                }
            ]
        },
        {"result": "undefined"},
    ]


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ("utf-8", {"a": "é"}, True),
        ("UTF-16", {"a": "é"}, True),
        ("utf-32", {"a": "é"}, True),
        ("utf-7", {"a": "é"}, "undefined"),
        (None, {"a": "é"}, "undefined"),
        ("utf-8", '{"a": "é"}', True),
        ("utf-16", '{"a": "é"}', True),
        ("utf-8", "not json", "undefined"),
        ("utf-8", [1], "undefined"),
        ("utf-8", 5, "undefined"),
        ("utf-8", None, "undefined"),
    ],
)
def test_bodies(encoding: str | None, body: Any, expected: bool | str) -> None:
    """An object is serialised in its contentEncoding; a string is the raw text."""
    system = {"contentType": "application/json"} | ({"contentEncoding": encoding} if encoding else {})
    line = {"condition": "$body.a = 'é'", "message": {"systemProperties": system, "body": body}}
    assert answers("eval", lines=[line]) == [{"result": expected}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON: Input data was truncated; write one JSON object per line"),
        ([], "expected one JSON object per line"),
        ({}, "condition: expected text"),
        ({"condition": 5}, "condition: expected text"),
        ({"condition": "true", "source": 5}, "source: expected text"),
        ({"condition": "true", "message": 5}, "message: expected an object"),
        ({"condition": "true", "message": {"properties": 5}}, "message.properties: expected an object of texts"),
        ({"condition": "true", "message": {"systemProperties": {"a": 5}}}, "message.systemProperties: expected"),
    ],
)
def test_lines_that_are_no_request(line: Any, said: str) -> None:
    done = run("eval", lines=[line, {"condition": "true"}])
    first, second = map(json.loads, done.output.splitlines())
    assert done.exit_code == (1 if line in ("{", []) else 0), "a line that cannot be read is a failure"
    assert first["error"][0]["message"].startswith(said)
    assert second == {"result": True}


# ── match ──


def test_match() -> None:
    """Endpoint, queue, priority, time to live in seconds (null for never), and the routes that matched."""
    sent = manifest(
        a={"route": "FROM /messages/* INTO $upstream", "priority": 1},
        b="FROM /* INTO $upstream",
        c={"route": "FROM /* INTO BrokeredEndpoint('/modules/m/inputs/i')", "timeToLiveSecs": 60},
        d="FROM /twinChangeNotifications INTO $upstream",
    )
    assert answers(
        "match", lines=[{"manifest": sent, "source": "/messages/modules/x", "message": {}, "node": "n"}]
    ) == [
        {
            "deliveries": [
                {
                    **{"endpoint": "iothub", "topic": "default/telemetry", "queue": "iothub_Pri1"},
                    **{"priority": 1, "ttl": 7200, "routes": ["a", "b"]},
                },
                {"endpoint": "n/m/i", "queue": "n/m/i", "priority": 2_000_000_000, "ttl": 60, "routes": ["c"]},
            ]
        }
    ]


def test_match_of_nothing() -> None:
    line = {"manifest": manifest(a="FROM /messages/modules/m INTO $upstream"), "source": "/messages"}
    assert answers("match", lines=[line]) == [{"deliveries": []}]


@pytest.mark.parametrize(
    ("request_line", "said"),
    [
        ({"manifest": {**SAMPLE, "schemaVersion": "2.0"}}, "schemaVersion: 2.0 is not known"),
        ({"manifest": SAMPLE}, "> compares two values of the same type"),
        ({"manifest": manifest(a={"route": "FROM /* INTO $upstream", "priority": 10})}, "priority: must be between 0"),
        ({"manifest": manifest(**{"": "FROM /* INTO $upstream"})}, "name: Azure IoT Edge accepts no name"),
        ({"manifest": manifest(**{"a.b": "FROM /* INTO $upstream"})}, "name: Azure IoT Edge accepts no name"),
        ({"manifest": 5}, "manifest: expected an object"),
        ({}, "manifest: expected an object"),
        ({"manifest": manifest(), "node": 5}, "node: expected text"),
    ],
)
def test_match_of_a_bad_manifest(request_line: dict[str, Any], said: str) -> None:
    (answer,) = answers("match", lines=[request_line])
    assert answer["error"][0]["message"].startswith(said)


# ── check ──


def test_check_of_a_good_manifest(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(manifest(a="FROM /messages/* INTO $upstream")))
    done = run("check", str(file))
    assert (done.exit_code, done.stdout) == (0, "")


def test_check_shows_the_place_in_the_file(tmp_path: Path) -> None:
    """Line and column inside the quoted route, behind its escapes, with a caret below."""
    file = tmp_path / "m.json"
    text = json.dumps(SAMPLE, indent=2)
    file.write_text(text)
    done = run("check", str(file))
    line = next(number for number, each in enumerate(text.split("\n"), start=1) if '"bad"' in each)
    column = text.split("\n")[line - 1].index("> 5") + 1
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0].startswith(f"{file}:{line}:{column}: bad: > compares two values of the same type")
    assert lines[0].endswith("did you mean as_number(temp)?")
    assert lines[2].index("^") == lines[1].index("> 5")
    assert done.stderr == f"{file}: 1 valid, 1 error\n"


def test_check_as_json(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(SAMPLE))
    done = run("check", str(file), "-o", "json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["routes"], len(answer["findings"])) == (1, ["good"], 1)
    assert {"severity", "line", "column", "endColumn", "name", "message"} == set(answer["findings"][0])


def test_check_warns_without_failing(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    route = {"route": "FROM /message WHERE a||b = 'x' INTO $upstream", "ttl": 5}
    file.write_text(json.dumps(manifest(a=route)))
    done = run("check", str(file))
    assert done.exit_code == 0
    assert done.stdout.count(": warning: a: ") == 3


@pytest.mark.parametrize("name", ["", "a.b", "$a", "a#b", "a b"])
def test_check_refuses_names_outside_the_format(tmp_path: Path, name: str) -> None:
    """A node runs such a route, because no schema could have refused it; the one who writes it learns of it here."""
    file = tmp_path / "m.json"
    file.write_text(json.dumps(manifest(**{name: "FROM /* INTO $upstream"})))
    done = run("check", str(file))
    assert done.exit_code == 1
    assert "name: Azure IoT Edge accepts no name" in done.stdout and "warning" not in done.stdout


def test_check_finds_a_name_given_twice(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(
        '{"schemaVersion": "1.1", "storeAndForwardConfiguration": {},\n'
        ' "routes": {"a": "FROM /* INTO $upstream",\n  "a": "FROM /messages INTO $upstream"}}'
    )
    done = run("check", str(file))
    assert f"{file}:3:8: warning: a is given twice; the last one counts" in done.stdout


def test_check_of_an_edge_routes_object_in_yaml(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "kind: Namespace\nmetadata: {name: x}\n---\n"
        "apiVersion: fairlead.dev/v1alpha1\nkind: EdgeRoutes\nmetadata: {name: a}\nspec:\n"
        '  schemaVersion: "1.1"\n  storeAndForwardConfiguration: {}\n  routes:\n'
        "    plain: FROM /messages/* WHERE temp > 5 INTO $upstream\n"
        "    block:\n      route: |\n        FROM /messages/*\n        WHERE temp > 5\n        INTO $upstream\n"
    )
    places = [line.split(": ")[0] for line in run("check", str(file)).stdout.splitlines() if line.startswith(str(file))]
    assert places == [f"{file}:11:40", f"{file}:15:20"]


def test_check_of_what_kubectl_prints() -> None:
    item = {"kind": "EdgeRoutes", "metadata": {"name": "a"}, "spec": SAMPLE}
    done = CliRunner().invoke(
        main.build(), ["routes", "check", "-"], input=json.dumps({"kind": "List", "items": [item]})
    )
    assert done.exit_code == 1
    assert done.stdout.startswith("-:1:")


def test_check_of_a_manifest_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"schemaVersion": "9.9",\n "routes": {}}')
    done = run("check", str(file))
    assert done.exit_code == 1
    assert f"{file}:1:19: schemaVersion: 9.9 is not known" in done.stdout
    assert (
        f"{file}:1:1: storeAndForwardConfiguration: is missing; write for example {{timeToLiveSecs: 7200}}"
        in done.stdout
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "1:2: not JSON"),
        (b"a: [", "1:5: not YAML"),
        (b"kind: Pod", "1:1: holds no route manifest"),
        (b"", "1:1: holds no route manifest"),
        (b"[" * 100_000, "1:1: nested too deeply"),
        (b"x" * 100, "1:1: holds no route manifest"),
        (b"kind: EdgeNode", "1:1: holds no route manifest"),
        (b"apiVersion: fairlead.dev/v1alpha1\nkind: EdgeRoute", "2:7: kind EdgeRoute; did you mean EdgeRoutes?"),
        (b'{"kind": "edgeroutes"}', "1:10: kind edgeroutes; did you mean EdgeRoutes?"),
        (b"apiVersion: other.example/v1\nkind: EdgeRoute", "1:1: holds no route manifest"),
    ],
)
def test_check_of_a_text_that_is_no_manifest(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(content)
    done = run("check", str(file))
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{file}:{said}")
    found = json.loads(run("check", str(file), "-o", "json").stdout)
    assert (found["routes"], len(found["findings"])) == ([], 1)


def test_a_name_forges_no_line_and_orders_no_terminal(tmp_path: Path) -> None:
    """What a manifest says is shown, and each mistake is one line with its place."""
    file = tmp_path / "m.json"
    routes = {"a\n/etc/x:1:1: forged\x1b[2J": "FROM /* INTO nowhere"}
    file.write_text(json.dumps({"schemaVersion": "1.1", "routes": routes}) + "\x1b[2J")
    done = CliRunner().invoke(main.build(), ["routes", "check", str(file)], color=True)
    assert done.exit_code == 1 and "\x1b" not in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("/etc/x")]
    file.write_text(json.dumps({"schemaVersion": "1.1", "routes": routes}))
    done = CliRunner().invoke(main.build(), ["routes", "check", str(file)], color=True)
    assert done.exit_code == 1 and "forged" in done.stdout and "\x1b" not in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("/etc/x")]


def test_check_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(b"\xff")
    done = run("check", str(file))
    assert done.exit_code == 2 and "not UTF-8" in done.output


def test_check_of_a_file_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "FILE_BYTES_MAX", 10)
    file = tmp_path / "m.json"
    file.write_text(json.dumps(SAMPLE))
    assert run("check", str(file)).exit_code == 2
    assert run("check", str(tmp_path / "none")).exit_code == 2


# ── dry run ──


def test_dry_run_says_why(tmp_path: Path) -> None:
    """Per route the result and what was missing; the bad route is named, the good ones decide."""
    file = tmp_path / "m.json"
    file.write_text(
        json.dumps(
            manifest(
                number="FROM /messages/* WHERE as_number(temp) > 5 INTO $upstream",
                body="FROM /messages/* WHERE $body.a = 1 INTO $upstream",
                all="FROM /messages/* INTO BrokeredEndpoint('/modules/m/inputs/i')",
                twin="FROM /twinChangeNotifications INTO $upstream",
                bad="FROM x INTO $upstream",
            )
        )
    )
    (answer,) = answers(
        "dry-run", str(file), "--node", "n7", lines=[{"source": "/messages", "message": {"properties": {"temp": "x"}}}]
    )
    assert [delivery["endpoint"] for delivery in answer["deliveries"]] == ["n7/m/i"]
    assert answer["routes"] == [
        {"name": "number", "result": "undefined", "reasons": ["as_number: 'x' is not a number"]},
        {
            "name": "body",
            "result": "undefined",
            "reasons": ["contentType is missing; it must be application/json"],
        },
        {"name": "all", "result": True, "reasons": []},
        {
            "name": "twin",
            "result": False,
            "reasons": ["the source /messages is not below /twinChangeNotifications"],
        },
    ]
    assert [(each["name"], each["column"]) for each in answer["quarantined"]] == [("bad", 6)]


def test_dry_run_of_stored_messages(tmp_path: Path) -> None:
    """As they were published, or as they stand in a topic; a body that is no JSON text comes in base64."""
    file = tmp_path / "m.json"
    file.write_text(json.dumps(manifest(a="FROM /messages/* WHERE $body.t > 5 INTO $upstream")))
    system = {"contentType": "application/json", "contentEncoding": "utf-16"}
    raw = base64.b64encode(b'{"t": 7}'.decode().encode("utf-16")).decode()
    stored = {"id": "1", "source": "/messages", "properties": {}, "systemProperties": system, "body": {"t": 7}}
    found = answers(
        "dry-run",
        str(file),
        lines=[stored, {**stored, "body": None, "bodyBase64": raw}, {**stored, "body": None, "bodyBase64": "?"}],
    )
    assert [each.get("routes", [{}])[0].get("result") for each in found] == [True, True, None]
    assert found[2]["error"][0]["message"].startswith("bodyBase64: ")


BODIES = st.sampled_from([{"t": 7}, {"t": 1}, {}, [1], 7, "text", '{"t": 7}', None, True])
SYSTEM = st.dictionaries(
    st.sampled_from(["contentType", "CONTENTTYPE", "contentEncoding", "other"]),
    st.sampled_from(["application/json", "text/plain", "utf-8", "UTF-8", "utf-16", "latin-1", "x", None]),
    max_size=3,
)
BASE64 = st.sampled_from(["eyJ0IjogN30=", "eyJ0IjogMX0=", "", "?", "/////w=="])
SENT = st.fixed_dictionaries(
    {"source": st.sampled_from(["/messages", "/messages/modules/m/outputs/o", "/twinChangeNotifications", "x", ""])},
    optional={
        "properties": st.dictionaries(st.sampled_from(["temp", "Temp"]), st.sampled_from(["6", "x", None])),
        "systemProperties": SYSTEM,
    },
)


@pytest.mark.slow
@given(SENT, st.one_of(st.tuples(st.just("body"), BODIES), st.tuples(st.just("bodyBase64"), BASE64)))
def test_dry_run_says_what_the_agent_does(sent: dict[str, Any], body: tuple[str, Any]) -> None:
    """Whatever a producer sends: the same deliveries, or the same refusal, whichever way it is written down."""
    routes = parse_manifest(
        manifest(
            body="FROM /messages/* WHERE $body.t > 5 INTO $upstream",
            number="FROM /messages/* WHERE as_number(temp) > 5 INTO BrokeredEndpoint('/modules/m/inputs/number')",
            read="FROM /messages/* WHERE is_defined($body.t) INTO BrokeredEndpoint('/modules/m/inputs/read')",
            type="FROM /* WHERE $contentType = 'application/json' INTO BrokeredEndpoint('/modules/m/inputs/type')",
        )
    )
    sent = {**sent, body[0]: body[1]}
    plan = publishing.plan(
        publishing.parse(json.dumps({"messages": [sent]}).encode()), Router(routes, "n7"), new_id=str, enqueued_at=""
    )
    [result] = json.loads(plan.answer())["results"]
    for request in (sent, {"source": sent["source"], "message": {k: v for k, v in sent.items() if k != "source"}}):
        answer = answer_dry_run(routes, "n7", request)
        if "error" in result:
            assert answer["error"][0]["message"] == result["error"]["message"]
        else:
            kept = [{key: each[key] for key in ("endpoint", "priority", "ttl")} for each in answer["deliveries"]]
            assert kept == result["deliveries"]


def test_dry_run_of_several_objects_is_as_on_a_node(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    good = {"kind": "EdgeRoutes", "metadata": {"name": "good"}, "spec": manifest(a="FROM /messages/* INTO $upstream")}
    bad = {"kind": "EdgeRoutes", "metadata": {"name": "bad"}, "spec": {"schemaVersion": "9.9"}}
    file.write_text(f"# both\n{json.dumps(bad)}\n---\n{json.dumps(good)}\n")
    (answer,) = answers("dry-run", str(file), lines=[{"source": "/messages", "message": {}}])
    assert [each["endpoint"] for each in answer["deliveries"]] == ["iothub"]
    assert answer["quarantined"][0]["origin"] == "bad" and "schemaVersion" in answer["quarantined"][0]["message"]


def test_dry_run_of_a_manifest_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    assert run("dry-run", str(file)).exit_code == 2
