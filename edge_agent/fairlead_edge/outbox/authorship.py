"""Who may say that a message is from whom: modules with tokens of their own, and devices behind them.

    a module's token    source below /messages/modules/{module}, or none     ─▶ stamped with the module's name
                        source /messages, and the device in connectionDeviceId ─▶ stamped as a device behind the module
    any other program   any source but those of modules that have tokens

The stamp are the system properties ``connectionDeviceId`` (the node, or the device behind the module) and
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
"""Cannot be in a key that a program gives."""

HasToken = Callable[[str], bool]
"""Does this module have a token of its own?"""


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes: ``module`` is the one whose token was shown, "" for any other program of the node."""

    module: str = ""
    node: str = ""
    has_token: HasToken = lambda name: False

    @property
    def default_source(self) -> str:
        """Of messages that name no source; "": each must name one."""
        return own_source(self.module) if self.module else ""

    def own_key(self, key: str) -> str:
        """An Idempotency-Key is its module's own: no other program gets the answer that belongs to it."""
        return f"{self.module}{KEY_SEPARATOR}{key}" if self.module else key

    def sign(self, submissions: Sequence[Submission | RefusalReason]) -> list[Submission | RefusalReason]:
        """Each as it is stored, or why it is refused."""
        return [
            each
            if isinstance(each, RefusalReason)
            else stamped(each, module=self.module, node=self.node, has_token=self.has_token)
            for each in submissions
        ]


ANY_PROGRAM: Final = Author()


def stamped(submission: Submission, *, module: str, node: str, has_token: HasToken) -> Submission | RefusalReason:
    """The message as it is stored, or why its author may not say this.  ``module`` "": no module's token was shown."""
    if not module:
        return _of_another(submission, has_token)
    return _of_module(submission, module, node)


def attributed(submission: Submission, *, module: str, node: str) -> Submission:
    """With the module's stamp whatever its source: of messages whose source names no module."""
    return _with(submission, submission.source, node, module)


@functools.lru_cache(SOURCES_REMEMBERED)
def module_of(source: str) -> str:
    """The module a source names; "" when it names none."""
    parts = source.split("/")
    is_module = len(parts) > len(MODULES.split("/")) and ascii_case.same("/".join(parts[:3]), MODULES)
    return parts[3] if is_module else ""


def own_source(module: str) -> str:
    """Where a module's messages without a source come from."""
    return f"{MODULES}/{module}"


def _of_another(submission: Submission, has_token: HasToken) -> Submission | RefusalReason:
    # A property may stand there more than once, spelled differently, and routes see the last one: none may claim.
    claimed = (value for name, value in submission.system_properties.items() if ascii_case.same(name, MODULE))
    for name in (module_of(submission.source), *claimed):
        if name and has_token(name):
            return RefusalReason(
                FORBIDDEN, f"module {name} has a token of its own: only with it may one publish as {name}"
            )
    return submission


def _of_module(submission: Submission, module: str, node: str) -> Submission | RefusalReason:
    said = _property(submission, MODULE)
    if said and not ascii_case.same(said, module):
        return RefusalReason(FORBIDDEN, f"module {module} may not publish as module {said}")
    device = _property(submission, DEVICE)
    named = module_of(submission.source)
    if ascii_case.same(named, module):
        if device not in ("", node):
            reason = f"module {module} speaks for the device {device} with source {LEAF_SOURCE}, not with its own"
            return RefusalReason(FORBIDDEN, reason)
        rest = submission.source.split("/")[4:]
        return _with(submission, "/".join([own_source(module), *rest]), node, module)
    if not ascii_case.same(submission.source, LEAF_SOURCE):
        who = f"as module {named}" if named else f"with source {submission.source[:80]}"
        return RefusalReason(
            FORBIDDEN, f"module {module} may not publish {who}: its sources begin with {own_source(module)}"
        )
    if not device or device == node:
        reason = f"module {module} publishes with source {LEAF_SOURCE} for a device behind it: name that in {DEVICE}"
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
