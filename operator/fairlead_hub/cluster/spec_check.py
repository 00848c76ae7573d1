"""Validates a SyncRule or EdgeRoutes object against the model of its definition, for its user.

    kopf's handlers ─check─▶ SpecCheck ─▶ condition ``Valid`` of its status

The effect of a rule is decided elsewhere (``sync_rule``), and nodes validate routes one by one.  This check runs before
any node is asked, and also covers objects that were stored under older definitions.
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
    """The result for one generation of one object."""

    collection: Collection
    name: str
    uid: str
    generation: int
    mistakes: str
    """Each with its path; empty if there are none."""


def check(collection: Collection, name: str, uid: str, generation: int, spec: Any) -> SpecCheck:
    """Validate a spec of any shape.  Never raises."""
    mistakes = sync_rule.mistakes_in(spec, _MODELS[collection])
    return SpecCheck(collection=collection, name=name, uid=uid, generation=generation, mistakes=mistakes)
