"""Refusals in the words Kubernetes clients understand."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.presentation import api_errors
from fairlead_edge.objects.presentation.api_errors import ApiError


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (404, "NotFound"),
        (405, "MethodNotAllowed"),
        (410, "Expired"),
        (418, "Unknown"),
    ],
)
def test_a_status_object_carries_code_reason_and_message(code: int, reason: str) -> None:
    """kubectl prints the message, clients branch on reason and code."""
    body = api_errors.status(ApiError(code, "because"))
    assert (body["kind"], body["status"], body["code"], body["reason"]) == ("Status", "Failure", code, reason)
    assert body["message"] == "because" and "details" not in body


def test_not_found_names_the_object() -> None:
    """As the API server words it, with details for programs."""
    body = api_errors.status(api_errors.not_found("deployments", "apps", "till"))
    assert body["message"] == 'deployments.apps "till" not found'
    assert body["details"] == {"name": "till", "kind": "deployments", "group": "apps"}
    assert str(api_errors.not_found("pods", "", "a")) == 'pods "a" not found'
