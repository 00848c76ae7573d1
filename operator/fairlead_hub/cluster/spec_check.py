"""A SyncRule or EdgeRoutes object held against the model of its definition: what its user should know of it.

    kopf's handlers ─check─▶ SpecCheck ─▶ condition ``Valid`` of its status

What a rule does is decided elsewhere (``sync_rule``), and routes are judged by the nodes, one by one.  This is said
before any node is asked, also of an object that was stored under older definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import pydantic

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.custom_resources import route_specs, specs

Collection = Literal["syncrules", "edgeroutes"]
COLLECTIONS: tuple[Collection, ...] = get_args(Collection)
_MODELS: Mapping[Collection, type[pydantic.BaseModel]] = {
    "syncrules": specs.SyncRuleSpec,
    "edgeroutes": route_specs.EdgeRoutesSpec,
}


class SpecCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Of one generation of one object."""

    collection: Collection
    name: str
    uid: str
    generation: int
    mistakes: str
    """Each with its path; empty when there are none."""


def check(collection: Collection, name: str, uid: str, generation: int, spec: Any) -> SpecCheck:
    """Never raises, whatever the spec is."""
    mistakes = sync_rule.mistakes_in(spec, _MODELS[collection])
    return SpecCheck(collection=collection, name=name, uid=uid, generation=generation, mistakes=mistakes)
