"""The codes of refusals: those the server can say and those the contract names are the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fairlead_messaging
from fairlead_messaging.api import error_codes
from fairlead_messaging.client import errors

ROOM = Path(fairlead_messaging.__file__).parent
BY_CONSTRUCTION = {"bad_ts", "bad_limit"}
"""Made of ``bad_`` and the name of a query parameter."""


def said() -> Iterator[str]:
    """Every text that server and errors use as a code."""
    for path in [*ROOM.glob("server/**/*.py"), ROOM / "api" / "errors.py", ROOM / "api" / "message_id.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="code")], value=value):
                    for part in ast.walk(value):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield part.value
                case ast.Call(func=ast.Name(id="MemoryBudget"), args=[_, ast.Constant(value=str(value))]):
                    yield value


def test_the_server_says_no_other_codes_and_each_of_these() -> None:
    """What programs may rely on is written down, and nothing else is."""
    codes = {each for each in said() if re.fullmatch(r"[a-z]+(_[a-z]+)*", each)} | BY_CONSTRUCTION
    known = set(error_codes.MEANINGS)
    assert codes - known == set()
    assert known - codes <= {"internal"}


def test_general_codes_and_facts_are_known_codes() -> None:
    """Also those with which nothing was begun, which clients repeat."""
    for group in (error_codes.EVERYWHERE, error_codes.WITH_A_BODY, error_codes.NOTHING_DONE, error_codes.FACTS):
        assert set(group) <= set(error_codes.MEANINGS)
    assert all(error_codes.MEANINGS[code][0] == 503 for code in error_codes.NOTHING_DONE)


def test_clients_read_status_and_code_alike() -> None:
    """A refusal that may pass by itself is temporary for them, every other is not."""
    for code, (status, meaning) in error_codes.MEANINGS.items():
        body = b'{"error":{"code":"%s","message":"m"}}' % code.encode()
        failure = errors.of("GET /", status, {}, body)
        assert failure.code == code and meaning.endswith(".")
        assert isinstance(failure, errors.Busy) == (status in errors.LATER)
