"""Writes the page of messaging's calls and error codes from the contract that the service itself uses.

.venv/bin/python docs/reference/messaging_tables.py      # after a change; a test fails while it is due
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fairlead_messaging.api import error_codes
from fairlead_messaging.api.routes import ARROW_POLL, HEALTH_ROUTES, ROUTES, ApiRoute

PAGE = Path(__file__).resolve().parent / "messaging-api.md"
HEAD = """# Messaging: every call and every error code

Made by `messaging_tables.py` from the types with which the service answers and its clients read. The same with every
field, as an OpenAPI 3.1 document, is answered by the service itself at `/openapi.json`;
[what the calls do](messaging.md).

## Calls

`{namespace}`, `{topic}`, `{reader}` and `{subscription}` are letters, digits, `_` and `-`, at most 200. A request's
example is its body (base64 where it is bytes). Codes that every call may be refused with are listed below, once.

"""
CODES = """
## Error codes

An answer of 400 and more is `{"error": {"code", "message", …}}`. `code` and status are for programs and stay; `message`
is for people. 429 and 503 carry `Retry-After` (seconds).

| status | code | meaning | beside it |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page as it should be."""
    calls = "\n".join(map(_call, (*ROUTES, ARROW_POLL, *HEALTH_ROUTES)))
    every = ", ".join(f"`{code}`" for code in error_codes.EVERYWHERE)
    codes = "\n".join(
        f"| {status} | `{code}` | {meaning} | {_facts(code)} |"
        for code, (status, meaning) in sorted(error_codes.MEANINGS.items(), key=lambda each: (each[1][0], each[0]))
    )
    return f"{HEAD}{calls}\nEvery call: {every}.\n{CODES}{codes}\n"


def _call(route: ApiRoute[Any]) -> str:
    parts = [f"### `{route.method} {route.path}`" + (" (Arrow)" if route is ARROW_POLL else ""), "", route.summary, ""]
    if route.query is not None:
        parts.append(f"- Query: {', '.join(f'`{name}`' for name in route.query.__struct_fields__)}")
    if route.example is not None:
        parts.append(f"- Request: `{_json(route.example)}`")
    if route.answers is not None:
        parts.append(f"- Answer: `{_json(route.answers)}`")
    if route.headers:
        parts.append(f"- Headers: {', '.join(f'`{name}`' for name in route.headers)}")
    if route.specific_codes:
        parts.append(f"- Refused with: {', '.join(f'`{code}`' for code in sorted(route.specific_codes))}")
    return "\n".join(parts).rstrip() + "\n"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _facts(code: str) -> str:
    return ", ".join(
        f"`{name}`" + (f": {shape['description']}" if "description" in shape else "")
        for name, shape in error_codes.FACTS.get(code, {}).items()
    )


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
