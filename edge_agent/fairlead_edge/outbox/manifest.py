"""The route manifest: which routes there are, how urgent each is, how long its messages live.

    bytes or object ─parse→ Manifest (routes that run, and the bad ones set aside with their positions)
    several EdgeRoutes objects ─merge→ one Manifest for the node

The format is that of Azure IoT Edge's hub (seed: route priority and time-to-live), `schemaVersion` 1.0 to 1.3; an
object-form route may also carry a `topic`.  One bad route never stops the good ones: it is quarantined with its place
and reason.  Only a document that is no manifest at all is refused, with `ManifestError`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from fairlead_edge.outbox.queue_id import DEFAULT_PRIORITY
from fairlead_edge.routes.advice import advise
from fairlead_edge.routes.compiler import Route, compile_route
from fairlead_edge.routes.errors import CompileError, Invalid
from fairlead_wire import event
from fairlead_wire.validation.mistakes import Mistake

MANIFEST_BYTES_MAX: Final = 1024 * 1024
ROUTES_MAX: Final = 1000
PRIORITY_MAX: Final = 9
ROUTE_TTL_SECONDS_MAX: Final = 4_294_967_295
DEFAULT_TTL_SECONDS: Final = 7200
"""The global time to live when `storeAndForwardConfiguration` names none."""
DEFAULT_TOPIC: Final = "default/telemetry"
"""Where messages for upstream go when their route names no topic: `namespace/topic`."""
SCHEMA_MINOR_MAX: Final = 3
KEY_CHARS_MAX: Final = 64
"""Of an unknown key that is quoted."""

_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,9}){0,2}")
_NAME = re.compile(r"[^.$# ]+")
_TOPIC = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+")
_ROUTE_KEYS: Final = ("route", "priority", "timeToLiveSecs", "topic")


class ManifestError(ValueError):
    """The document is no manifest; `mistakes` say where and why, `reasons` are the same as sentences."""

    def __init__(self, *mistakes: Mistake) -> None:
        self.mistakes = mistakes
        self.reasons = tuple(map(str, mistakes))
        super().__init__("; ".join(self.reasons))


class RouteError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"end_column": "endColumn"}):
    """One mistake in one route; without a position it concerns the route's other fields, or another object's route.

    Lines and columns are those of the route's text, from 1, the end exclusive; `origin` is the EdgeRoutes object.
    """

    name: str
    message: str
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRoute:
    """A route that runs. `ttl_seconds` is resolved (None: never expires); `time_to_live_secs` is what was written."""

    name: str
    route: Route
    priority: int = DEFAULT_PRIORITY
    time_to_live_secs: int = 0
    ttl_seconds: int | None = DEFAULT_TTL_SECONDS
    topic: str = DEFAULT_TOPIC
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a node routes by: `routes` run, `quarantined` say why the others do not.

    `warnings` are about what is accepted and perhaps not meant.
    """

    routes: tuple[ManifestRoute, ...] = ()
    quarantined: tuple[RouteError, ...] = ()
    warnings: tuple[RouteError, ...] = ()


def parse(raw: bytes | str | Mapping[str, Any]) -> Manifest:
    """A manifest from JSON or from a decoded object, wrapped or not.  Raises `ManifestError`."""
    document, _ = unwrap(raw if isinstance(raw, Mapping) else _decode(raw))
    found: list[Mistake] = []
    minor = _schema_minor(document.get("schemaVersion"), found)
    routes = _routes(document, minor, found)
    ttl_seconds = _global_ttl(document.get("storeAndForwardConfiguration"), found)
    if found:
        raise ManifestError(*found)
    accepted: list[ManifestRoute] = []
    quarantined: list[RouteError] = []
    warnings: list[RouteError] = []
    for name, value in routes.items():
        if minor == 0 and isinstance(value, str) and not value.strip():
            continue  # how a 1.0 twin deletes a route
        route = _route(name, value, minor, ttl_seconds, quarantined)
        if route is not None:
            accepted.append(route)
        warnings += _warnings(name, route, value)
    return Manifest(routes=tuple(accepted), quarantined=tuple(quarantined), warnings=tuple(warnings))


def merge(manifests: Sequence[tuple[str, Manifest]]) -> Manifest:
    """The union for a node that several EdgeRoutes objects name.

    A route name belongs to the object that comes first in the alphabet of those whose route of that name is good: a bad
    route owns nothing.  The objects concerned say so.  A route inherits the global time to live of its own object.
    """
    ordered = sorted(manifests, key=lambda pair: pair[0])
    owners: dict[str, str] = {}
    for origin, manifest in ordered:
        for route in manifest.routes:
            owners.setdefault(route.name, origin)
    routes: list[ManifestRoute] = []
    quarantined: list[RouteError] = []
    warnings: list[RouteError] = []
    bad: dict[str, list[str]] = {}
    for origin, manifest in ordered:
        for error in manifest.quarantined:
            owner, message = owners.get(error.name), error.message
            if owner is not None:
                message += f"; the route of this name in EdgeRoutes {owner} runs"
                bad.setdefault(error.name, []).append(origin)
            quarantined.append(msgspec.structs.replace(error, message=message, origin=origin))
        for route in manifest.routes:
            owner = owners[route.name]
            if owner == origin:
                routes.append(replace(route, origin=origin))
            else:
                message = f"a route of this name is also in EdgeRoutes {owner}, which comes first"
                quarantined.append(RouteError(name=route.name, message=message, origin=origin))
        mine = [each for each in manifest.warnings if owners.get(each.name, origin) == origin]
        warnings += [msgspec.structs.replace(each, origin=origin) for each in mine]
    for name, others in bad.items():
        named = ", ".join(dict.fromkeys(others))
        message = f"a route of this name is also in EdgeRoutes {named}, where it is bad: this one runs"
        warnings.append(RouteError(name=name, message=message, origin=owners[name]))
    return Manifest(routes=tuple(routes), quarantined=tuple(quarantined), warnings=tuple(warnings))


def unwrap(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The manifest inside an EdgeRoutes object or a deployment document, and the path of keys to it."""
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
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as reason:
        raise ManifestError(Mistake("manifest", f"not JSON: {reason}")) from None
    except RecursionError:
        raise ManifestError(Mistake("manifest", "nested too deeply")) from None
    if not isinstance(document, dict):
        raise ManifestError(Mistake("manifest", "expected an object"))
    return document


def _schema_minor(version: object, mistakes: list[Mistake]) -> int:
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        what = "is missing" if version is None else f'{version!r} is not a version in quotes, such as "1.1"'
        mistakes.append(Mistake("schemaVersion", f"{what}; 1.0 to 1.{SCHEMA_MINOR_MAX} are known"))
    elif int(found[1]) != 1 or int(found[2]) > SCHEMA_MINOR_MAX:
        mistakes.append(Mistake("schemaVersion", f"{version} is not known, 1.0 to 1.{SCHEMA_MINOR_MAX} are"))
    return int(found[2]) if found else SCHEMA_MINOR_MAX


def _routes(document: Mapping[str, Any], minor: int, mistakes: list[Mistake]) -> Mapping[str, Any]:
    routes = document.get("routes", {} if minor == 0 else None)
    if routes is None:
        mistakes.append(Mistake("routes", "is missing; an empty object means no routes"))
    elif not isinstance(routes, Mapping):
        mistakes.append(Mistake("routes", "expected an object of names and routes"))
    elif len(routes) > ROUTES_MAX:
        mistakes.append(Mistake("routes", f"{len(routes)} are too many, {ROUTES_MAX} is the limit"))
    else:
        return routes
    return {}


def _global_ttl(section: object, mistakes: list[Mistake]) -> int | None:
    """The time to live routes inherit: 0 or absent is the default, a negative one means never."""
    if not isinstance(section, Mapping):
        what = "is missing" if section is None else "expected an object"
        mistakes.append(Mistake("storeAndForwardConfiguration", what))
        return None
    seconds = section.get("timeToLiveSecs")
    if seconds is None:
        seconds = 0
    if not _whole(seconds):
        mistakes.append(Mistake("storeAndForwardConfiguration.timeToLiveSecs", "expected whole seconds"))
        return None
    if seconds > ROUTE_TTL_SECONDS_MAX:
        mistakes.append(Mistake("storeAndForwardConfiguration.timeToLiveSecs", f"at most {ROUTE_TTL_SECONDS_MAX}"))
    return None if seconds < 0 else seconds or DEFAULT_TTL_SECONDS


def _route(
    name: str, value: object, minor: int, inherited: int | None, quarantined: list[RouteError]
) -> ManifestRoute | None:
    """The route, or None and its mistakes in `quarantined`."""
    mistakes: list[RouteError] = []

    def refuse(message: str) -> None:
        mistakes.append(RouteError(name=name, message=message))

    if not _NAME.fullmatch(name):
        refuse("name: must not be empty, and hold no dot, $, # or blank")
    if isinstance(value, Mapping) and minor == 0:
        refuse("the object form needs schemaVersion 1.1 or newer")
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"route": value}
    text = fields.get("route")
    priority = _field(fields, "priority", DEFAULT_PRIORITY)
    ttl = _field(fields, "timeToLiveSecs", 0)
    topic = _field(fields, "topic", DEFAULT_TOPIC)
    if not isinstance(text, str) or not text.strip():
        refuse("route: is missing or empty" if text is None or isinstance(text, str) else "route: expected text")
    if priority != DEFAULT_PRIORITY and not (_whole(priority) and 0 <= priority <= PRIORITY_MAX):
        refuse(f"priority: must be from 0 (first) to {PRIORITY_MAX}, is {priority!r}")
    if not (_whole(ttl) and 0 <= ttl <= ROUTE_TTL_SECONDS_MAX):
        refuse(f"timeToLiveSecs: must be from 0 (inherit) to {ROUTE_TTL_SECONDS_MAX}, is {ttl!r}")
    if not (isinstance(topic, str) and _TOPIC.fullmatch(topic)):
        refuse(f"topic: expected namespace/name of letters, digits, _ and -, is {topic!r}")
    elif event.is_reserved(topic):
        refuse(f"topic: namespace {event.SYSTEM_NAMESPACE} is for Fairlead's own events, is {topic!r}")
    route = _compile(name, text, mistakes) if isinstance(text, str) and text.strip() else None
    quarantined += mistakes
    if mistakes or route is None:
        return None
    return ManifestRoute(
        name=name,
        route=route,
        priority=priority,
        time_to_live_secs=ttl,
        ttl_seconds=ttl or inherited,
        topic=topic,
    )


def _warnings(name: str, route: ManifestRoute | None, value: object) -> list[RouteError]:
    """What is accepted, as the original does, and has no effect, or hardly the one that is meant; None: a bad route."""
    fields = value if isinstance(value, Mapping) else {}
    texts = []
    for key in fields:
        if key not in _ROUTE_KEYS:
            shown = str(key)[:KEY_CHARS_MAX]
            meant = difflib.get_close_matches(shown, _ROUTE_KEYS, n=1)
            texts.append(f"{shown}: unknown key, it has no effect" + (f"; did you mean {meant[0]}?" if meant else ""))
    if route is not None and fields.get("topic") is not None and route.route.sink.module:
        texts.append("topic: has no effect, because the route does not go to $upstream")
    found = [RouteError(name=name, message=text) for text in texts]
    return found + [_positioned(name, each) for each in (advise(route.route) if route is not None else ())]


def _field(fields: Mapping[str, Any], key: str, default: Any) -> Any:
    """An explicit null is like an absent key."""
    value = fields.get(key)
    return default if value is None else value


def _compile(name: str, text: str, mistakes: list[RouteError]) -> Route | None:
    try:
        return compile_route(text)
    except Invalid as invalid:
        mistakes += [_positioned(name, error) for error in invalid.errors]
        return None


def _positioned(name: str, error: CompileError) -> RouteError:
    return RouteError(
        name=name, message=error.message, line=error.line, column=error.column, end_column=error.end_column
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
