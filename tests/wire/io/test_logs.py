"""Logs: one JSON object a line, never a secret."""

import io
import json
import logging
import ssl

import pytest
from aiohttp.http_exceptions import BadStatusLine

from fairlead_wire.io import logs


@pytest.fixture
def lines():
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("fairlead").level
    logs.configure("hub", "debug", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], level, ours = before
    root.setLevel(level)
    logging.getLogger("fairlead").setLevel(ours)


def test_an_event_and_its_fields(lines):
    logs.get("hub.server").info("session_opened", node="edge-1", fence=3)
    [line] = lines()
    assert line["event"] == "session_opened"
    assert (line["room"], line["logger"], line["node"], line["fence"]) == ("hub", "hub.server", "edge-1", 3)
    assert line["ts"].endswith("Z")


def test_an_unexpected_error_is_logged_in_one_line(lines):
    def fails():
        raise KeyError("gone")

    try:
        fails()
    except KeyError as error:
        logs.get("edge.link").error("link_error", **logs.describe_error(error))
    [line] = lines()
    assert (line["error"], line["reason"]) == ("KeyError", "'gone'")
    assert line["at"].startswith("test_logs.fails:") and "traceback" not in line


def test_secrets_never_reach_the_log(lines):
    logs.get("edge.api").warning("refused", token="abc123", reason="header was Bearer abc123.def")
    text = json.dumps(lines())
    assert "abc123" not in text


def test_secrets_inside_of_values_never_reach_the_log(lines):
    """Neither in a mapping, nor in a list, nor in an error, nor in an address."""
    logs.get("messaging.pusher").warning(
        "x",
        a={"token": "abc123", "deep": {"password": "abc123"}},
        b=["Bearer abc123", ("Basic abc123",)],
        c=ValueError("Authorization: Bearer abc123"),
        d="cannot reach http://user:abc123@127.0.0.1/ now",
    )
    [line] = lines()
    assert "abc123" not in json.dumps(line)
    assert line["d"] == "cannot reach http://[secret]@127.0.0.1/ now"


def test_a_peers_text_is_always_written(lines, capsys):
    """Halves of characters, control characters and huge numbers become a line like any other, not a traceback."""
    logs.get("hub.server").info("nack", reason="\udcff\x1b[31m\u2028é", held=10**400, share=float("nan"))
    [line] = lines()
    assert line["reason"] == "\\udcff\x1b[31m\\u2028é" and line["held"] == 10**400
    assert capsys.readouterr().err == ""


def test_a_peers_fault_is_a_line_without_traceback(lines):
    """Garbage from outside must not fill the log; a defect in the same library's hands is still logged whole."""
    for error in (BadStatusLine("GET \x00\nmore"), ValueError("ours")):
        try:
            raise error
        except (BadStatusLine, ValueError):
            logging.getLogger("aiohttp.server").error("Error handling request", exc_info=True)
    fault, defect = lines()
    assert (fault["event"], fault["level"]) == ("peer_error", "info")
    assert "traceback" not in fault and "more" not in fault["reason"]
    assert "ValueError: ours" in defect["traceback"]


def test_newlines_stay_inside_the_line(lines):
    logs.get("hub.server").info("nack", reason='x\n{"event":"forged"}')
    assert len(lines()) == 1


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError("reset"), BrokenPipeError("gone"), TimeoutError("late"), ssl.SSLError("bad"), EOFError()],
)
def test_a_peer_that_hangs_up_leaves_no_traceback(lines, error):
    try:
        raise error
    except (OSError, EOFError):
        logging.getLogger("asyncio").exception("Fatal error on transport")
    [line] = lines()
    assert "traceback" not in line and line["reason"] and "message" not in line


def test_other_libraries_and_tracebacks_are_json_too(lines):
    logging.getLogger("aiohttp").warning("slow %s", "thing")
    try:
        raise ValueError("bad")
    except ValueError:
        logs.get("hub.server").exception("defect")
    foreign, ours = lines()
    assert (foreign["event"], foreign["message"]) == ("log", "slow thing")
    assert "ValueError: bad" in ours["traceback"]
