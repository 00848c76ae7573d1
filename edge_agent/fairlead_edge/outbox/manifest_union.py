"""The manifests of several EdgeRoutes objects, joined into the one a node routes by.

    manifests by object name ─merge→ one Manifest: each route with the object it is from

A route name belongs to one object.  Of those whose route of that name is good (a bad route owns nothing) it is the one
that wrote it in the object form, the newer format; of equals the one that was made first; of those made in the same
second the one whose name comes first.  Every object concerned says so: the others as an error, the owner as a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from fairlead_edge.outbox.manifest import Manifest, ManifestRoute, RefusedRoute, RouteProblem

_UNKNOWN_AGE = "~"
"""After every time: what says nothing of its age is taken for the youngest."""

_Claim = tuple[bool, str, str]
"""How an object stands for a route name, the best first: is its route text, when was it made, its own name."""


def merge(manifests: Sequence[tuple[str, Manifest]]) -> Manifest:
    """The union, by object name.  A route inherits the global time to live of its own object."""
    ordered = sorted(manifests, key=lambda pair: pair[0])
    claims: dict[str, list[_Claim]] = {}
    for origin, manifest in ordered:
        for route in manifest.routes:
            claims.setdefault(route.name, []).append(_claim(origin, manifest, route))
    owners = {name: min(found) for name, found in claims.items()}
    routes: list[ManifestRoute] = []
    refused: list[RefusedRoute] = []
    quarantined: list[RouteProblem] = []
    warnings: list[RouteProblem] = []
    bad: dict[str, list[str]] = {}
    for origin, manifest in ordered:
        for error in manifest.quarantined:
            message = error.message
            if error.name in owners:
                message += f"; the route of this name in EdgeRoutes {owners[error.name][-1]} runs"
                bad.setdefault(error.name, []).append(origin)
            quarantined.append(msgspec.structs.replace(error, message=message, origin=origin))
        for route in manifest.routes:
            mine, owner = _claim(origin, manifest, route), owners[route.name]
            if mine == owner:
                routes.append(replace(route, origin=origin))
            else:
                message = f"a route of this name is also in EdgeRoutes {owner[-1]}, which {_why(owner, mine)}: it runs"
                quarantined.append(RouteProblem(name=route.name, message=message, origin=origin))
                refused.append(_superseded(route, message, origin))
        refused += (replace(each, origin=origin) for each in manifest.refused)
        own = [each for each in manifest.warnings if each.name not in owners or owners[each.name][-1] == origin]
        warnings += [msgspec.structs.replace(each, origin=origin) for each in own]
    for name, owner in owners.items():
        others = [
            f"a route of this name is also in EdgeRoutes {mine[-1]}; this one runs, because it {_why(owner, mine)}"
            for mine in sorted(claims[name])
            if mine != owner
        ]
        if name in bad:
            named = ", ".join(dict.fromkeys(bad[name]))
            others.append(f"a route of this name is also in EdgeRoutes {named}, where it is bad: this one runs")
        warnings += [RouteProblem(name=name, message=message, origin=owner[-1]) for message in others]
    return Manifest(
        routes=tuple(routes),
        quarantined=tuple(quarantined),
        refused=tuple(refused),
        warnings=tuple(warnings),
        defaults={origin: manifest.default_ttl_seconds for origin, manifest in ordered},
    )


def _superseded(route: ManifestRoute, reason: str, origin: str) -> RefusedRoute:
    return RefusedRoute(
        name=route.name,
        reason=reason,
        source=route.route.source,
        condition=route.route.condition,
        priority=route.priority,
        ttl_seconds=route.ttl_seconds,
        origin=origin,
    )


def _claim(origin: str, manifest: Manifest, route: ManifestRoute) -> _Claim:
    return (route.is_text, manifest.created or _UNKNOWN_AGE, origin)


def _why(owner: _Claim, other: _Claim) -> str:
    if owner[0] != other[0]:
        return "has it in the object form"
    return "was made first" if owner[1] != other[1] else "was made at the same time and comes first by name"
