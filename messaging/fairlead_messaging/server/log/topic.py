"""A topic: its name, its generation and its properties, one of which is the delivery policy of its subscriptions.

Generations are never reused: deleting keeps the record with the generation negated, recreating takes
the next one, so rows of an older generation are unreachable at once and removed later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from fairlead_messaging.api.errors import Refused
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.validation.mistakes import Mistake, Wrong, shown

NAME_CHARS_MAX = 200
TTL_SECONDS_MAX = 2**31 - 1
PROPERTIES_MAX = 64
SYSTEM_TOPICS_MAX = 10_000
PROPERTY_CHARS_MAX = 4096
TRANSACTIONAL = ("allowed", "required", "refused")
HOLD_UP = "hold_up_seconds_max"

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_WHOLE_SECONDS = re.compile(r"[0-9]{1,10}")


def check_name(what: str, name: str) -> str:
    """Namespace and topic names: one or more letters, digits, ``_`` or ``-``.

    Raises: Refused otherwise.
    """
    if len(name) > NAME_CHARS_MAX or _NAME.fullmatch(name) is None:
        raise Refused(f"{what} must be 1 to {NAME_CHARS_MAX} letters, digits, '_' or '-'", code="bad_name")
    return name


def parse_ttl(value: object, what: str = "ttl") -> int:
    """Seconds to live, 1 to 2147483647, given as a whole number or its decimal text.

    Raises: Refused for anything else.
    """
    if isinstance(value, str) and _WHOLE_SECONDS.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= TTL_SECONDS_MAX:
        return value
    raise Refused(f"{what} must be whole seconds, 1 to {TTL_SECONDS_MAX}", code="bad_ttl")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGeneration:
    """One generation of a topic; ``properties`` are the texts a caller sees, ``ttl`` always among them.

    ``delivery``: the delivery policy as the caller gave it, for subscriptions that define none.
    """

    namespace: str
    name: str
    generation: int
    ttl_seconds: int
    properties: Mapping[str, str] = field(default_factory=dict)
    delivery: Mapping[str, Any] | None = None

    @property
    def exists(self) -> bool:
        return self.generation > 0

    @property
    def transactional(self) -> str:
        return self.properties.get("transactional", "allowed")

    @property
    def hold_up_seconds_max(self) -> int | None:
        """How long a transaction may hold up this topic's readers; None: as long as the service allows."""
        text = self.properties.get(HOLD_UP, "")
        return int(text) if text.isdecimal() else None

    @property
    def policy(self) -> DeliveryPolicy | None:
        return delivery_policy.parse(dict(self.delivery)) if self.delivery is not None else None

    def shown_properties(self) -> dict[str, str | dict[str, Any]]:
        """The properties in answers: those of the caller, and the generation."""
        shown: dict[str, str | dict[str, Any]] = {**self.properties}
        if self.delivery is not None:
            shown["delivery"] = dict(self.delivery)
        return shown | {"ttl": str(self.ttl_seconds), "generation": str(self.generation)}


class _Record(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    generation: int
    ttl_seconds: int
    properties: dict[str, str]
    delivery: dict[str, Any] | None = None


def encode(topic: TopicGeneration) -> bytes:
    policy = dict(topic.delivery) if topic.delivery is not None else None
    texts = dict(sorted(topic.properties.items()))
    return msgspec.json.encode(_Record(topic.generation, topic.ttl_seconds, texts, policy))


def decode(namespace: str, name: str, raw: bytes) -> TopicGeneration:
    record = msgspec.json.decode(raw, type=_Record)
    return TopicGeneration(
        namespace=namespace,
        name=name,
        generation=record.generation,
        ttl_seconds=record.ttl_seconds,
        properties=record.properties,
        delivery=record.delivery,
    )


class TopicProperties(NamedTuple):
    """What a caller may set: ``texts`` are all properties except the time to live and the delivery policy."""

    ttl_seconds: int
    texts: dict[str, str]
    delivery: dict[str, Any] | None = None


def parse_properties(raw: object, default_ttl_seconds: int) -> TopicProperties:
    """Parse a caller's properties.  Absent ones return to their defaults; ``generation`` is ignored.

    Raises: Refused naming everything that is wrong, with the code of the first.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise Refused("topic properties must be a JSON object", code="bad_properties")
    if len(raw) > PROPERTIES_MAX:
        raise Refused(f"at most {PROPERTIES_MAX} properties", code="bad_properties")
    found = TopicProperties(default_ttl_seconds, {})
    refusals: list[Refused] = []
    for key, value in raw.items():
        try:
            if key == "ttl":
                found = found._replace(ttl_seconds=parse_ttl(value))
            elif key == "delivery":
                found = found._replace(delivery=given_policy(value))
            elif key == HOLD_UP:
                found.texts[key] = str(_hold_up(value))
            elif key != "generation":
                found.texts[key] = _property_text(key, value)
        except Refused as refused:
            refusals.append(refused)
        except Wrong as wrong:
            refusals.append(Refused(wrong.sentence, code="bad_properties"))
    if found.texts.get("transactional", "allowed") not in TRANSACTIONAL:
        refusals.append(Refused(f"transactional must be one of {', '.join(TRANSACTIONAL)}", code="bad_properties"))
    if refusals:
        raise Refused("; ".join(each.message for each in refusals), code=refusals[0].code)
    return found


def given_policy(value: object) -> dict[str, Any] | None:
    """A delivery policy as it was given, which has been checked; None if there is none.

    Raises: Wrong with every mistake, each below ``delivery``.
    """
    if value is None:
        return None
    try:
        if not isinstance(value, dict):
            raise Wrong(Mistake("", "must be an object with the keys of a delivery policy"))
        delivery_policy.parse(value)
    except Wrong as wrong:
        raise Wrong(*(each.below("delivery") for each in wrong.mistakes)) from None
    return {name: value[name] for name in DeliveryPolicy.__struct_fields__ if name in value}


def _hold_up(value: object) -> int:
    try:
        return parse_ttl(value)
    except Refused:
        raise Refused(f"{HOLD_UP} must be whole seconds, 1 to {TTL_SECONDS_MAX}", code="bad_properties") from None


def _property_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise Refused(f"property {key[:64]!r} must be text, a number or a boolean", code="bad_properties")
    if len(key) > PROPERTY_CHARS_MAX or len(text) > PROPERTY_CHARS_MAX:
        raise Refused(f"property {key[:64]!r} is longer than {PROPERTY_CHARS_MAX} characters", code="bad_properties")
    return text


def expand_system_topics(names: list[str]) -> list[str]:
    """``prefix:N`` stands for prefix0 … prefix(N-1); other entries stand for themselves.

    Raises: ValueError naming the entry, for bad names and counts.
    """
    topics: list[str] = []
    for entry in (name.strip() for name in names):
        prefix, colon, count = entry.partition(":")
        if colon and not (prefix and count.isascii() and count.isdecimal() and 1 <= int(count) <= SYSTEM_TOPICS_MAX):
            raise ValueError(f"{shown(entry)}: must be a prefix, a colon and a count of 1 to {SYSTEM_TOPICS_MAX}")
        for name in [f"{prefix}{i}" for i in range(int(count))] if colon else [entry]:
            if _NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
                raise ValueError(f"{shown(entry)}: not a topic name")
            if name not in topics:
                topics.append(name)
    return topics
