"""The metadata table: which topics there are."""

from __future__ import annotations

from fairlead_messaging.api.errors import NotFound
from fairlead_messaging.server.log import keys, topic
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Batch, Gets, Snapshot


def record(source: Gets, namespace: str, name: str) -> TopicGeneration | None:
    """The topic's record, deleted or not; None if there never was one."""
    topic.check_name("namespace", namespace)
    topic.check_name("topic", name)
    raw = source.get(keys.metadata(namespace, name))
    return topic.decode(namespace, name, raw) if raw is not None else None


def lookup(source: Gets, namespace: str, name: str) -> TopicGeneration:
    """The existing topic.

    Raises: NotFound; Refused for an invalid name.
    """
    found = record(source, namespace, name)
    if found is None or not found.exists:
        raise missing(namespace, name)
    return found


def missing(namespace: str, name: str) -> NotFound:
    return NotFound(f"topic {namespace}/{name} does not exist", code="topic_not_found")


def names(snapshot: Snapshot, namespace: str) -> list[str]:
    """The names of the existing topics of a namespace, sorted."""
    topic.check_name("namespace", namespace)
    prefix = keys.namespace_metadata(namespace)
    return [found.name for found in _scan(snapshot, prefix) if found.exists]


def namespaces(snapshot: Snapshot) -> list[str]:
    """The namespaces with an existing topic, sorted."""
    return sorted({found.namespace for found in _scan(snapshot, keys.METADATA) if found.exists})


def every(snapshot: Snapshot) -> list[TopicGeneration]:
    """Every record, including those of deleted topics, which cleanup needs."""
    return _scan(snapshot, keys.METADATA)


def _scan(snapshot: Snapshot, prefix: bytes) -> list[TopicGeneration]:
    return [topic.decode(*keys.metadata_names(key), raw) for key, raw in snapshot.scan(prefix, keys.above(prefix))]


def write(batch: Batch, changed: TopicGeneration) -> None:
    batch.put(keys.metadata(changed.namespace, changed.name), topic.encode(changed))
