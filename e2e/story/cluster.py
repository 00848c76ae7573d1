"""The interface that the story needs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Cluster(Protocol):
    """A cluster with one node, the four images in it, and an administrator's kubectl and helm."""

    @property
    def node(self) -> str:
        """The name of its node."""

    @property
    def address(self) -> str:
        """Where the host reaches NodePorts."""

    @property
    def storage_class(self) -> str | None:
        """What claims shall name: None for the default class, "" for volumes made by hand."""

    def provide_volumes(self, names: Sequence[str]) -> None:
        """See that as many claims can be bound; nothing to do where a class makes volumes."""

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl; raises CommandError."""

    def helm(self, *arguments: str) -> str:
        """Run helm; raises CommandError."""
