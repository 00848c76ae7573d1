"""Tables for ``kubectl get``, which lets the server lay out the rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

Document = dict[str, Any]
Cells = Callable[[Document, float], list[Any]]


class TableColumn(msgspec.Struct, frozen=True):
    """A column; ``priority`` 0 is always shown, 1 only in wide output."""

    name: str
    type: str = "string"
    priority: int = 0


class KindLayout(msgspec.Struct, frozen=True):
    """The layout of one kind; ``cells`` gets the object and the wall clock in seconds."""

    columns: tuple[TableColumn, ...]
    cells: Cells


_NAME: Final = TableColumn("Name")
_AGE: Final = TableColumn("Age")


def table(
    group: str,
    plural: str,
    documents: Sequence[Document],
    *,
    metadata: Document,
    now: float,
    include_object: str = "Metadata",
    headers: bool = True,
) -> Document:
    """A ``meta.k8s.io/v1`` Table.  ``include_object``: Metadata, Object or None, as in the client's request."""
    layout = _LAYOUTS.get((group, plural), _GENERIC)
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": "",
            "priority": column.priority,
        }
        for column in layout.columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if headers else None,
        "rows": [_row(layout, document, now, include_object) for document in documents],
    }


def _row(layout: KindLayout, document: Document, now: float, include_object: str) -> Document:
    try:
        cells = layout.cells(document, now)
    except (AttributeError, TypeError, ValueError, OverflowError):
        # An object of an unexpected shape loses its own cells, but does not break the list.
        cells = [_name(document), *[None] * (len(layout.columns) - 1)]
    row: Document = {"cells": cells}
    if include_object == "Object":
        row["object"] = document
    elif include_object == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": document["metadata"],
        }
    return row


def age(timestamp: str | None, now: float) -> str:
    """The age of an RFC 3339 UTC time, in kubectl's short form."""
    if not timestamp:
        return "<unknown>"
    try:
        then = datetime.datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return "<invalid>"
    seconds = max(0, int(now - then))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def _name(document: Document) -> str:
    return str(document["metadata"].get("name", ""))


def _age(document: Document, now: float) -> str:
    return age(document["metadata"].get("creationTimestamp"), now)


def _generic(document: Document, now: float) -> list[Any]:
    return [_name(document), _age(document, now)]


def _with_data(document: Document, now: float) -> list[Any]:
    count = len(document.get("data") or {}) + len(document.get("binaryData") or {})
    return [_name(document), count, _age(document, now)]


def _secret(document: Document, now: float) -> list[Any]:
    return [_name(document), document.get("type", ""), len(document.get("data") or {}), _age(document, now)]


def _pod(document: Document, now: float) -> list[Any]:
    spec: Mapping[str, Any] = document.get("spec") or {}
    status: Mapping[str, Any] = document.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(1 for container in containers if container.get("ready"))
    restarts = sum(int(container.get("restartCount", 0)) for container in containers)
    phase = "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", "Unknown")
    return [
        _name(document),
        f"{ready}/{len(spec.get('containers') or [])}",
        status.get("reason") or phase,
        restarts,
        _age(document, now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
    ]


_GENERIC: Final = KindLayout((_NAME, _AGE), _generic)
_LAYOUTS: Final = {
    ("", "configmaps"): KindLayout((_NAME, TableColumn("Data", "integer"), _AGE), _with_data),
    ("", "secrets"): KindLayout((_NAME, TableColumn("Type"), TableColumn("Data", "integer"), _AGE), _secret),
    ("", "pods"): KindLayout(
        (
            _NAME,
            TableColumn("Ready"),
            TableColumn("Status"),
            TableColumn("Restarts", "integer"),
            _AGE,
            TableColumn("IP", priority=1),
            TableColumn("Node", priority=1),
        ),
        _pod,
    ),
}
