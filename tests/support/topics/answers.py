"""Requests of the messaging clients and responses to them, as values."""

from __future__ import annotations

import json
from typing import Any

from fairlead_messaging.client.request import ClientRequest, Response


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Response:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, headers=found, body=body)


def refusal(status: int, code: str, **facts: Any) -> Response:
    return answer(status, json.dumps({"error": {"code": code, "message": "", **facts}}).encode())


def asked(call: ClientRequest[Any]) -> Any:
    assert call.body is not None
    return json.loads(call.body)
