"""EdgeRoutes as users write them: the route manifest, field by field, as the API server validates it.

The limits are those of ``fairlead_wire.validation.route_manifest``, which the agent also enforces: what passes here is
a valid manifest at the edge, and all its routes have the right shape.  Whether the text of a route is valid is for the
nodes to say, because only they compile it.  In version 1.0 routes are strings only; a Kubernetes schema cannot make the
type of some values depend on another field, so the minimum here is 1.1, which accepts everything that 1.0 does.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import pydantic
from pydantic import AfterValidator, Field

from fairlead_hub.cluster.custom_resources.specs import SELECTOR, LabelSelector, SpecModel, closed, like
from fairlead_hub.cluster.custom_resources.structural_schema import PRESERVE
from fairlead_wire import event
from fairlead_wire.validation import mistakes, route_manifest

_NOT_BLANK: Final = re.compile(route_manifest.NOT_BLANK)


def _not_blank(text: str) -> str:
    if _NOT_BLANK.search(text) is None:
        raise mistakes.wrong("", "is missing or empty")
    return text


def _not_reserved(topic: str) -> str:
    if event.is_reserved(topic):
        raise mistakes.wrong(
            "",
            f"must not be in namespace {event.SYSTEM_NAMESPACE}, which is reserved for Fairlead's"
            f" own events, is {topic!r}",
        )
    return topic


RouteText = Annotated[
    str,
    Field(
        max_length=route_manifest.TEXT_CHARS_MAX,
        json_schema_extra={"pattern": route_manifest.NOT_BLANK},
    ),
    AfterValidator(_not_blank),
]


class RouteObject(SpecModel):
    """An unknown key has no effect, as in Azure IoT Edge; the node logs a warning."""

    model_config = pydantic.ConfigDict(extra="ignore", json_schema_extra={PRESERVE: True})

    route: RouteText = Field(description="FROM source WHERE condition INTO sink.")
    priority: Annotated[int, Field(ge=0, le=route_manifest.PRIORITY_MAX)] | None = Field(
        default=None, description="Priority; 0 is sent first, routes without one after all others."
    )
    time_to_live_secs: Annotated[int, Field(ge=0, le=route_manifest.TTL_SECONDS_MAX)] | None = Field(
        default=None,
        description=(
            "Seconds for which messages of this route are kept; 0 or absent: as in storeAndForwardConfiguration."
        ),
        json_schema_extra={"format": "int64"},
    )
    topic: (
        Annotated[
            str,
            like(f"^{route_manifest.TOPIC}$", "is not a topic such as plant/alarms"),
            AfterValidator(_not_reserved),
        ]
        | None
    ) = Field(
        default=None,
        max_length=1024,
        description="Topic of messages for $upstream, as namespace/name; absent: default/telemetry.",
        json_schema_extra={
            "pattern": f"^{route_manifest.TOPIC}$",
            "not": {"pattern": f"^{event.SYSTEM_NAMESPACE}/"},
        },
    )


class StoreAndForward(SpecModel):
    model_config = pydantic.ConfigDict(extra="ignore", json_schema_extra={PRESERVE: True})

    time_to_live_secs: Annotated[int, Field(ge=-1, le=route_manifest.TTL_SECONDS_MAX)] | None = Field(
        default=None,
        description=(
            "Seconds for which messages of routes without a time to live are kept; 0 or absent: 7200, -1: forever. Also"
            " applies to messages that are already waiting."
        ),
        json_schema_extra={"format": "int64"},
    )


class EdgeRoutesSpec(SpecModel):
    model_config = closed()

    node_selector: LabelSelector | None = Field(default=None, description=SELECTOR)
    schema_version: Annotated[
        str, like(f"^{route_manifest.OBJECT_VERSION}$", f"is not supported; {route_manifest.OBJECT_VERSIONS} are")
    ] = Field(
        max_length=route_manifest.VERSION_CHARS_MAX,
        description=(
            f"Version of the manifest, in quotes: {route_manifest.OBJECT_VERSIONS}. Everything valid in 1.0 is valid"
            " in 1.1."
        ),
        json_schema_extra={"pattern": f"^{route_manifest.OBJECT_VERSION}$"},
    )
    routes: dict[str, RouteText | RouteObject | None] = Field(
        max_length=route_manifest.ROUTES_MAX,
        description="Routes by name, each as text or as an object with route, priority, timeToLiveSecs and topic.",
    )
    store_and_forward_configuration: StoreAndForward = Field(
        description="How long messages of routes without a time to live are kept; may be empty."
    )


class EdgeRoutesReach(SpecModel):
    """The part of EdgeRoutes that the hub has to understand: which nodes they are for.  Nodes validate the rest."""

    model_config = closed()

    node_selector: LabelSelector | None = None
