"""Who asks, as a command carries it: a transaction belongs to the subject that began it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.access.access_table import Grants


class _Touched(Protocol):
    namespace: str
    name: str


class Caller(msgspec.Struct, frozen=True):
    """``grants`` is None where there is no table: then everything is granted."""

    shown: str = ""
    owner: str = ""
    grants: Grants | None = None

    def may(self, verb: Verb, namespace: str, name: str) -> bool:
        return self.grants is None or self.grants.may(verb, namespace, name)

    def sees(self, namespace: str, name: str) -> bool:
        return self.grants is None or self.grants.sees(namespace, name)

    def owns(self, owner: str) -> bool:
        """A transaction of an earlier version, or begun without a table, is everyone's."""
        return self.grants is None or not owner or owner == self.owner

    def may_administer_all(self, touched: Iterable[_Touched]) -> bool:
        """Everything a transaction did; of one that did nothing yet no topic says who may."""
        if self.grants is None:
            return True
        each = list(touched)
        if not each:
            return self.grants.may_everywhere(Verb.ADMINISTER)
        return all(self.grants.may(Verb.ADMINISTER, topic.namespace, topic.name) for topic in each)


UNRESTRICTED = Caller()
"""The service itself, and everyone where there is no table."""
NOT_KNOWN = Caller(grants=Grants())
"""Nothing is granted."""


def check_owner(caller: Caller, pointer: int, owner: str) -> None:
    """For what makes a transaction say more: publish, store, roll back, renew, commit.  Raises: Forbidden."""
    if not caller.owns(owner):
        raise Forbidden(f"{caller.shown} did not begin transaction {pointer}: only the subject that did may use it")


def check_may_end(caller: Caller, pointer: int, owner: str, touched: Iterable[_Touched]) -> None:
    """For what hides it: abort, invalidate.  Raises: Forbidden."""
    if not caller.owns(owner) and not caller.may_administer_all(touched):
        raise Forbidden(
            f"{caller.shown} did not begin transaction {pointer} and may not administer every topic it touched: only "
            "one of the two may end it"
        )
