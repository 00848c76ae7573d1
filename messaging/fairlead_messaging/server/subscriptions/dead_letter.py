"""Dead letters: the topic they go into, and the producer that stores each once."""

from __future__ import annotations

import hashlib
from typing import Any

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log import topic
from fairlead_messaging.server.producers.producer import PRODUCER_ID_BYTES_MAX


def topic_names(text: Any) -> tuple[str, str]:
    """(namespace, name) of ``namespace/name``.  Raises: Refused."""
    namespace, slash, name = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash:
        raise Refused("dead_letter_topic must be namespace/name", code="bad_subscription")
    return topic.check_name("namespace", namespace), topic.check_name("topic", name)


def producer_id(name: tuple[str, str, str], position: str) -> str:
    """The producer id of one dead letter: three names at their full length would not fit into one."""
    plain = f"subscription/{'/'.join(name)}/{position}"
    if len(plain) <= PRODUCER_ID_BYTES_MAX:
        return plain
    return f"subscription/{hashlib.sha256('/'.join(name).encode()).hexdigest()}/{position}"
