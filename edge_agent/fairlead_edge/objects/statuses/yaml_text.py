"""YAML that a program sent, as JSON values: without references, tags and dates, which JSON does not have.

Clients of Kubernetes send JSON under this name; people send YAML with curl.  The parser is loaded when the first of it
comes.
"""

from __future__ import annotations

from typing import Any

from fairlead_wire.errors import FairleadError


class BadYaml(FairleadError):
    """It cannot be read; the text says where."""


def load(text: bytes) -> Any:
    """Raises ``BadYaml``."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A reference would let a few bytes stand for gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("references (*name) are not taken")
            return super().compose_node(parent, index)

    dates = "tag:yaml.org,2002:timestamp"
    Loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != dates] for first, pairs in Loader.yaml_implicit_resolvers.items()
    }
    try:
        found = yaml.load(text, Loader)
        _check(found)
    except (yaml.YAMLError, ValueError, UnicodeDecodeError, RecursionError) as error:
        raise BadYaml(" ".join(str(error).split())[:200] or type(error).__name__) from None
    return found


def _check(value: Any) -> None:
    """Raises ``ValueError`` where JSON has no such value."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                raise ValueError("a key is no text")
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, float) and (each != each or each in (float("inf"), float("-inf"))):
            raise ValueError("a number is not finite")
        elif not isinstance(each, str | int | float | bool | None):
            raise ValueError(f"{type(each).__name__} is no value of JSON")
