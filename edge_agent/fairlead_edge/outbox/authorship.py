"""Which program may publish in whose name: modules with their own tokens, and devices behind them.

    a module's token    source below /messages/modules/{module}, or none     ─▶ stamped with the module's name
                        source /messages, and the device in connectionDeviceId ─▶ stamped as a device behind the module
    any other program   any source except those of modules that have tokens

The stamp is the system properties ``connectionDeviceId`` (the node, or the device behind the module) and
``connectionModuleId`` (the module), as in Azure IoT Edge; routes see them as ``$connectionModuleId``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.outbox.publishing import SOURCES_REMEMBERED, RefusalReason, Submission
from fairlead_edge.outbox.receipts import marks

FORBIDDEN: Final = "forbidden_source"
DEVICE: Final = "connectionDeviceId"
MODULE: Final = marks.MODULE_PROPERTY
LEAF_SOURCE: Final = "/messages"
MODULES: Final = "/messages/modules"

KEY_SEPARATOR: Final = "\x1f"
"""Separates module and key; a program's key cannot contain it (``publishing.check_key``)."""

HasToken = Callable[[str], bool]
"""Whether this module has its own token."""


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes: ``module`` is the module whose token was presented, "" for any other program on the node."""

    module: str = ""
    node: str = ""
    has_token: HasToken = lambda name: False

    @property
    def default_source(self) -> str:
        """The source of messages that name none; "" if every message must name one."""
        return own_source(self.module) if self.module else ""

    def own_key(self, key: str) -> str:
        """The Idempotency-Key within this module's namespace, so that no other program gets its answer."""
        return f"{self.module}{KEY_SEPARATOR}{key}" if self.module else key

    def sign(self, submissions: Sequence[Submission | RefusalReason]) -> list[Submission | RefusalReason]:
        """Each message as it is to be stored, or the reason why it is refused."""
        return [
            each
            if isinstance(each, RefusalReason)
            else stamped(each, module=self.module, node=self.node, has_token=self.has_token)
            for each in submissions
        ]


ANY_PROGRAM: Final = Author()


def stamped(submission: Submission, *, module: str, node: str, has_token: HasToken) -> Submission | RefusalReason:
    """The message as it is to be stored, or why its author may not publish it.

    ``module`` is "" if no module's token was presented.
    """
    if not module:
        return _of_another(submission, has_token)
    return _of_module(submission, module, node)


def attributed(submission: Submission, *, module: str, node: str) -> Submission:
    """The message with the module's stamp, without a check of its source: for sources that name no module."""
    return _with(submission, submission.source, node, module)


@functools.lru_cache(SOURCES_REMEMBERED)
def module_of(source: str) -> str:
    """The module that a source names, or ""."""
    parts = source.split("/")
    is_module = len(parts) > len(MODULES.split("/")) and ascii_case.same("/".join(parts[:3]), MODULES)
    return parts[3] if is_module else ""


def own_source(module: str) -> str:
    """The source of a module's messages that name none."""
    return f"{MODULES}/{module}"


def _of_another(submission: Submission, has_token: HasToken) -> Submission | RefusalReason:
    # A property may occur several times in different cases, and routes see the last one: check all of them.
    claimed = (value for name, value in submission.system_properties.items() if ascii_case.same(name, MODULE))
    for name in (module_of(submission.source), *claimed):
        if name and has_token(name):
            return RefusalReason(FORBIDDEN, f"module {name} has its own token: present it to publish as {name}")
    return submission


def _of_module(submission: Submission, module: str, node: str) -> Submission | RefusalReason:
    said = _property(submission, MODULE)
    if said and not ascii_case.same(said, module):
        return RefusalReason(FORBIDDEN, f"module {module} may not publish as module {said}")
    device = _property(submission, DEVICE)
    named = module_of(submission.source)
    if ascii_case.same(named, module):
        if device not in ("", node):
            reason = f"module {module} must publish for the device {device} with source {LEAF_SOURCE}, not its own"
            return RefusalReason(FORBIDDEN, reason)
        rest = submission.source.split("/")[4:]
        return _with(submission, "/".join([own_source(module), *rest]), node, module)
    if not ascii_case.same(submission.source, LEAF_SOURCE):
        who = f"as module {named}" if named else f"with source {submission.source[:80]}"
        return RefusalReason(
            FORBIDDEN, f"module {module} may not publish {who}: its sources begin with {own_source(module)}"
        )
    if not device or device == node:
        reason = f"source {LEAF_SOURCE} is for devices behind module {module}: name the device in {DEVICE}"
        return RefusalReason(FORBIDDEN, reason)
    return _with(submission, LEAF_SOURCE, device, module)


def _with(submission: Submission, source: str, device: str, module: str) -> Submission:
    kept = {
        name: value
        for name, value in submission.system_properties.items()
        if not ascii_case.same(name, DEVICE) and not ascii_case.same(name, MODULE)
    }
    return msgspec.structs.replace(
        submission, source=source, system_properties={**kept, DEVICE: device, MODULE: module}
    )


def _property(submission: Submission, wanted: str) -> str:
    found = (value for name, value in submission.system_properties.items() if ascii_case.same(name, wanted))
    return next(found, None) or ""
