"""The route manifest: the routes, how urgent each is, and how long its messages live.

    bytes or object ─parse→ Manifest (routes that run, and the bad ones with the positions of their mistakes)
    several EdgeRoutes objects ─merge→ one Manifest for the node

The format is that of Azure IoT Edge's hub (seed: route priority and time-to-live), `schemaVersion` 1.0 to 1.3; an
object-form route may also carry a `topic`.  A bad route never stops the good ones: it is quarantined with its position
and the reason.  Only a document that is no manifest at all is refused, with `ManifestError`.  The shape of a document
that the API server accepted (`fairlead_wire.validation.route_manifest`) is always accepted here, too; what may still be
wrong is the text of a route.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from fairlead_edge.outbox.queues import DEFAULT_PRIORITY
from fairlead_edge.routes.compiler import CompiledRoute, Condition, compile_route
from fairlead_edge.routes.endpoints import TELEMETRY, SourcePattern
from fairlead_edge.routes.errors import CompileError, Invalid
from fairlead_edge.routes.explain import advise
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.parser import parse_source
from fairlead_wire import event
from fairlead_wire.validation import route_manifest
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.route_manifest import PRIORITY_MAX, ROUTES_MAX, SCHEMA_MINOR_MAX, TTL_SECONDS_MAX

# ---- JSON text -------------------------------------------------------------------------------------------------------


def decode(raw: bytes | str) -> Any:
    """Decode a manifest's JSON text.  If a route occurs twice, the object form wins, whatever the order.

    JSON lets a name repeat in an object, and decoders keep the last one; here a route in the old format (text) never
    overrides one in the new format (seed: route priority and time-to-live, "Deployment manifest changes").  Raises
    ``ValueError`` if the text is not JSON, ``RecursionError`` if it is nested too deeply.
    """
    text = raw if isinstance(raw, str) else raw.decode()
    msgspec.json.decode(text)  # strict: no NaN, no lone surrogates
    return json.loads(text, object_pairs_hook=joined)


def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of one object, without repeated names."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if isinstance(value, dict) and not isinstance(found[name], dict):
                found[name] = value  # of several objects the last
    return found


MANIFEST_BYTES_MAX: Final = 2 * 1024 * 1024
"""More than an API server stores for one object."""
DEFAULT_TTL_SECONDS: Final = 7200
"""The global time to live when `storeAndForwardConfiguration` names none."""
DEFAULT_TOPIC: Final = "default/telemetry"
"""The topic (`namespace/topic`) of messages for upstream whose route names none."""
ANY_SOURCE: Final = SourcePattern(TELEMETRY)
"""The source of a refused route whose text does not name one."""
KEY_CHARS_MAX: Final = 64
"""How much of an unknown key is quoted."""

_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,9}){0,2}")
_NAME = re.compile(r"[^.$# ]+")
_ODD_NAME = "name: Azure IoT Edge accepts no name that is empty or has a dot, $, # or a blank"
"""What Azure IoT Edge accepts as a route's name."""
_TOPIC = re.compile(route_manifest.TOPIC)
_NOT_BLANK = re.compile(route_manifest.NOT_BLANK)


class ManifestError(ValueError):
    """The document is no manifest; `mistakes` say where and why, `reasons` are the same as sentences.

    `routes` are the mistakes found in its routes, so that people can correct everything at once.
    """

    def __init__(self, *mistakes: Mistake, routes: Sequence[RouteProblem] = ()) -> None:
        self.mistakes = mistakes
        self.routes = tuple(routes)
        self.reasons = tuple(map(str, mistakes))
        super().__init__("; ".join(self.reasons))


class RouteProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"end_column": "endColumn"}):
    """One mistake in a route; without a position it concerns the route's other fields, or a route of another object.

    Lines and columns are those of the route's text, from 1, the end exclusive; `origin` is the EdgeRoutes object.
    If the mistake concerns one field, `key` names it, and `message` begins with it.
    """

    name: str
    message: str
    key: str = ""
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRoute:
    """A route that runs. `ttl_seconds` is resolved (None: never expires); `time_to_live_secs` is what was written.

    `is_text`: it is written in the old format, as text alone.
    """

    name: str
    route: CompiledRoute
    priority: int = DEFAULT_PRIORITY
    time_to_live_secs: int = 0
    ttl_seconds: int | None = DEFAULT_TTL_SECONDS
    topic: str = DEFAULT_TOPIC
    origin: str = ""
    is_text: bool = False

    @property
    def inherits(self) -> bool:
        """Whether its messages live as long as its object says, even if that changes while they wait."""
        return not self.time_to_live_secs


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRoute:
    """A route that does not run, as far as it can be read: messages it would take are held until the routes change.

    `source` matches everything if the text names none; `condition` is None if it does not compile.
    """

    name: str
    reason: str
    source: SourcePattern = ANY_SOURCE
    condition: Condition | None = None
    priority: int = DEFAULT_PRIORITY
    ttl_seconds: int | None = DEFAULT_TTL_SECONDS
    origin: str = ""

    def would_take(self, message: RoutedMessage) -> bool:
        """Whether it would take this message from its source: yes, unless its condition says no."""
        return self.condition is None or self.condition.run(message) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The routes of a node: `routes` run, `refused` do not, and `quarantined` says why.

    `warnings` concern what is accepted but perhaps not intended.  Routes without a time to live inherit
    `default_ttl_seconds` (None: never expires); in a union, `defaults` has it by object.  `created` is when the object
    was created, as Kubernetes writes it (UTC, so it sorts as text); "" if unknown.
    """

    routes: tuple[ManifestRoute, ...] = ()
    quarantined: tuple[RouteProblem, ...] = ()
    refused: tuple[RefusedRoute, ...] = ()
    warnings: tuple[RouteProblem, ...] = ()
    default_ttl_seconds: int | None = DEFAULT_TTL_SECONDS
    defaults: Mapping[str, int | None] = field(default_factory=dict)
    created: str = ""

    @property
    def odd_names(self) -> tuple[RouteProblem, ...]:
        """Names that the manifest format does not allow.  A node runs such routes; a check of manifests refuses
        them."""
        return tuple(each for each in self.warnings if each.message == _ODD_NAME)


def parse(raw: bytes | str | Mapping[str, Any], *, default_ttl_seconds: int = DEFAULT_TTL_SECONDS) -> Manifest:
    """Read a manifest from JSON or from a decoded object, wrapped or not.  Raises `ManifestError`.

    `default_ttl_seconds` applies if the manifest names no global time to live; negative means never.
    """
    whole = raw if isinstance(raw, Mapping) else _decode(raw)
    document, _ = unwrap(whole)
    found: list[Mistake] = []
    minor = _schema_minor(document.get("schemaVersion"), found)
    routes = _routes(document, minor, found)
    ttl_seconds = _global_ttl(
        document.get("storeAndForwardConfiguration"), default_ttl_seconds or DEFAULT_TTL_SECONDS, found
    )
    accepted: list[ManifestRoute] = []
    quarantined: list[RouteProblem] = []
    refused: list[RefusedRoute] = []
    warnings: list[RouteProblem] = []
    for name, value in routes.items():
        if value is None or (minor == route_manifest.TEXT_FORM_MINOR and isinstance(value, str) and _is_blank(value)):
            continue  # this is how a twin deletes a route
        route = _route(name, value, minor, ttl_seconds, quarantined)
        if isinstance(route, ManifestRoute):
            accepted.append(route)
        else:
            refused.append(route)
        warnings += _warnings(name, route, value)
    warnings += _odd_store_keys(document.get("storeAndForwardConfiguration"))
    if found:
        raise ManifestError(*found, routes=quarantined)
    return Manifest(
        routes=tuple(accepted),
        quarantined=tuple(quarantined),
        refused=tuple(refused),
        warnings=tuple(warnings),
        default_ttl_seconds=ttl_seconds,
        created=_created(whole),
    )


def unwrap(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The manifest in an EdgeRoutes object or a deployment document, and the path of keys to it."""
    for path in (("spec",), ("$edgeHub", "properties.desired"), ("modulesContent", "$edgeHub", "properties.desired")):
        if path == ("spec",) and document.get("kind") != "EdgeRoutes":
            continue
        inner: Any = document
        for key in path:
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            return inner, path
    return document, ()


def _decode(raw: bytes | str) -> Mapping[str, Any]:
    if len(raw) > MANIFEST_BYTES_MAX:
        raise ManifestError(Mistake("manifest", f"{len(raw)} bytes are too many, {MANIFEST_BYTES_MAX} is the limit"))
    try:
        document = decode(raw)
    except ValueError as reason:
        raise ManifestError(Mistake("manifest", f"not JSON: {reason}")) from None
    except RecursionError:
        raise ManifestError(Mistake("manifest", "nested too deeply")) from None
    if not isinstance(document, dict):
        raise ManifestError(Mistake("manifest", "expected an object"))
    return document


def _created(whole: Mapping[str, Any]) -> str:
    metadata = whole.get("metadata") if whole.get("kind") == "EdgeRoutes" else None
    created = metadata.get("creationTimestamp") if isinstance(metadata, Mapping) else None
    return created if isinstance(created, str) else ""


def _schema_minor(version: object, mistakes: list[Mistake]) -> int:
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        what = "is missing" if version is None else f'{version!r} is not a version in quotes, such as "1.1"'
        mistakes.append(Mistake("schemaVersion", f"{what}; {route_manifest.VERSIONS}"))
    elif int(found[1]) != 1 or int(found[2]) > SCHEMA_MINOR_MAX:
        mistakes.append(Mistake("schemaVersion", f"{version} is not known; {route_manifest.VERSIONS}"))
    return int(found[2]) if found else SCHEMA_MINOR_MAX


def _routes(document: Mapping[str, Any], minor: int, mistakes: list[Mistake]) -> Mapping[str, Any]:
    routes = document.get("routes", {} if minor == route_manifest.TEXT_FORM_MINOR else None)
    if routes is None:
        mistakes.append(Mistake("routes", "is missing; an empty object means no routes"))
    elif not isinstance(routes, Mapping):
        mistakes.append(Mistake("routes", "expected an object of names and routes"))
    elif len(routes) > ROUTES_MAX:
        mistakes.append(Mistake("routes", f"{len(routes)} are too many, {ROUTES_MAX} is the limit"))
    else:
        return routes
    return {}


def _global_ttl(section: object, default: int, mistakes: list[Mistake]) -> int | None:
    """The time to live that routes inherit: 0 or absent means the default, negative means never."""
    if not isinstance(section, Mapping):
        what = "is missing" if section is None else "expected an object"
        example = f"write for example {{timeToLiveSecs: {DEFAULT_TTL_SECONDS}}}"
        mistakes.append(Mistake("storeAndForwardConfiguration", f"{what}; {example}"))
        return None
    seconds = section.get("timeToLiveSecs")
    if seconds is None or (seconds == 0 and _whole(seconds)):
        seconds = default
    if not _whole(seconds):
        mistakes.append(Mistake("storeAndForwardConfiguration.timeToLiveSecs", "expected whole seconds"))
        return None
    if seconds > TTL_SECONDS_MAX:
        mistakes.append(Mistake("storeAndForwardConfiguration.timeToLiveSecs", f"at most {TTL_SECONDS_MAX}"))
    return None if seconds < 0 else seconds


def _route(
    name: str, value: object, minor: int, inherited: int | None, quarantined: list[RouteProblem]
) -> ManifestRoute | RefusedRoute:
    """The route; if it does not run, its mistakes are added to `quarantined`."""
    mistakes: list[RouteProblem] = []

    def refuse(key: str, reason: str) -> None:
        mistakes.append(_of_field(name, key, reason))

    if isinstance(value, Mapping) and minor == route_manifest.TEXT_FORM_MINOR:
        mistakes.append(RouteProblem(name=name, message="the object form needs schemaVersion 1.1 or newer"))
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"route": value}
    text = fields.get("route")
    priority = _field(fields, "priority", DEFAULT_PRIORITY)
    ttl = _field(fields, "timeToLiveSecs", 0)
    topic = _field(fields, "topic", DEFAULT_TOPIC)
    if not isinstance(text, str) or _is_blank(text):
        refuse("route", "is missing or empty" if text is None or isinstance(text, str) else "expected text")
    if fields.get("priority") is not None and not (_whole(priority) and 0 <= priority <= PRIORITY_MAX):
        refuse(
            "priority",
            f"must be between 0 (most urgent) and {PRIORITY_MAX}, but is {priority!r}"
            + ("; leave it out for the default" if priority == DEFAULT_PRIORITY else ""),
        )
        priority = DEFAULT_PRIORITY
    if not (_whole(ttl) and 0 <= ttl <= TTL_SECONDS_MAX):
        reason = f"must be a whole number of seconds from 0 (inherit) to {TTL_SECONDS_MAX}, but is {ttl!r}"
        refuse("timeToLiveSecs", reason)
        ttl = 0
    if not (isinstance(topic, str) and _TOPIC.fullmatch(topic)):
        refuse("topic", f"expected namespace/name of letters, digits, _ and -, is {topic!r}")
    elif event.is_reserved(topic):
        refuse("topic", f"namespace {event.SYSTEM_NAMESPACE} is reserved for Fairlead's own events")
    route = _compile(name, text, mistakes) if isinstance(text, str) and not _is_blank(text) else None
    quarantined += mistakes
    if mistakes or route is None:
        source = route.source if route is not None else parse_source(text) if isinstance(text, str) else None
        return RefusedRoute(
            name=name,
            reason=mistakes[0].message,
            source=source or ANY_SOURCE,
            condition=None if route is None else route.condition,
            priority=priority,
            ttl_seconds=ttl or inherited,
        )
    return ManifestRoute(
        name=name,
        route=route,
        priority=priority,
        time_to_live_secs=ttl,
        ttl_seconds=ttl or inherited,
        topic=topic,
        is_text=isinstance(value, str),
    )


def _warnings(name: str, made: ManifestRoute | RefusedRoute, value: object) -> list[RouteProblem]:
    """What is accepted, as in the original, but has no effect or probably not the intended one."""
    route = made if isinstance(made, ManifestRoute) else None
    fields = value if isinstance(value, Mapping) else {}
    found = []
    if not _NAME.fullmatch(name):
        found.append(RouteProblem(name=name, message=_ODD_NAME, key="name"))
    for key in fields:
        if key not in route_manifest.ROUTE_KEYS:
            shown = str(key)[:KEY_CHARS_MAX]
            meant = difflib.get_close_matches(shown, route_manifest.ROUTE_KEYS, n=1)
            reason = "unknown key, it has no effect" + (f"; did you mean {meant[0]}?" if meant else "")
            found.append(_of_field(name, shown, reason))
    if route is not None and fields.get("topic") is not None and route.route.sink.module:
        found.append(_of_field(name, "topic", "has no effect, because the route does not go to $upstream"))
    return found + [_positioned(name, each) for each in (advise(route.route) if route is not None else ())]


def _odd_store_keys(section: object) -> list[RouteProblem]:
    """Unknown keys: a misspelled time to live is not in force."""
    found = []
    for key in section if isinstance(section, Mapping) else ():
        if key != "timeToLiveSecs":
            shown = str(key)[:KEY_CHARS_MAX]
            meant = difflib.get_close_matches(shown, ["timeToLiveSecs"], n=1)
            reason = "unknown key, it has no effect" + (f"; did you mean {meant[0]}?" if meant else "")
            found.append(_of_field("storeAndForwardConfiguration", shown, reason))
    return found


def _field(fields: Mapping[str, Any], key: str, default: Any) -> Any:
    """The field, or the default: an explicit null is like an absent key."""
    value = fields.get(key)
    return default if value is None else value


def _compile(name: str, text: str, mistakes: list[RouteProblem]) -> CompiledRoute | None:
    try:
        return compile_route(text)
    except Invalid as invalid:
        mistakes += [_positioned(name, error) for error in invalid.errors]
        return None


def _of_field(name: str, key: str, reason: str) -> RouteProblem:
    return RouteProblem(name=name, message=f"{key}: {reason}", key=key)


def _positioned(name: str, error: CompileError) -> RouteProblem:
    return RouteProblem(
        name=name, message=error.message, line=error.line, column=error.column, end_column=error.end_column
    )


def _is_blank(text: str) -> bool:
    return _NOT_BLANK.search(text) is None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---- several objects -------------------------------------------------------------------------------------------------
#
# A route name belongs to one object.  Among the objects with a valid route of that name, the object form (the newer
# format) wins; then the object created first; within one second, the one whose name sorts first.  All objects
# concerned report the conflict: the owner as a warning, the others as an error.

_UNKNOWN_AGE = "~"
"""Sorts after every time: an object of unknown age counts as the youngest."""

_Claim = tuple[bool, str, str]
"""An object's claim to a route name; the smallest wins: whether its route is text, when it was created, its name."""


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
                message = (
                    f"EdgeRoutes {owner[-1]} also has a route {route.name}, {_why(owner, mine)}, which takes"
                    " precedence; rename this one"
                )
                quarantined.append(RouteProblem(name=route.name, message=message, origin=origin))
                refused.append(_superseded(route, message, origin))
        refused += (replace(each, origin=origin) for each in manifest.refused)
        own = [each for each in manifest.warnings if each.name not in owners or owners[each.name][-1] == origin]
        warnings += [msgspec.structs.replace(each, origin=origin) for each in own]
    for name, owner in owners.items():
        others = [
            f"EdgeRoutes {mine[-1]} also has a route {name}; this one, {_why(owner, mine)}, takes precedence;"
            " rename the other one"
            for mine in sorted(claims[name])
            if mine != owner
        ]
        if name in bad:
            named = ", ".join(dict.fromkeys(bad[name]))
            others.append(f"EdgeRoutes {named} also has a route {name}, which is invalid; this one runs")
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
        return "in object form"
    return "created first" if owner[1] != other[1] else "created at the same time and first by name"
