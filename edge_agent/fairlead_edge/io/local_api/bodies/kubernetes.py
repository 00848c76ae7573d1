"""What the Kubernetes-style API reads and answers beside objects."""

from __future__ import annotations

import msgspec

from fairlead_edge.io.local_api.bodies.answer import Answer


class Status(Answer, frozen=True, kw_only=True):
    """Why the Kubernetes-style API refuses, as its clients read it."""

    kind: str
    api_version: str
    status: str
    message: str
    reason: str
    code: int


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As `kubectl get` and `kubectl get --watch` ask."""

    watch: bool = False
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = msgspec.field(name="continue", default="")
    resource_version: str = ""


class StatusOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As clients of Kubernetes send a patch."""

    field_manager: str = ""
    force: bool = False
    dry_run: str = ""
