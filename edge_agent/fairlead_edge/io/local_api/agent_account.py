"""The types of the response of `GET /v1/status`."""

from __future__ import annotations

from typing import Any

from fairlead_edge.agent_status import Stall
from fairlead_edge.io.local_api.bodies import Answer
from fairlead_wire import message


class PlanStatus(Answer, frozen=True, kw_only=True):
    """Bytes that the link carried today, and its limits (null: no limit)."""

    date: str
    bytes_today: int
    bytes_per_day: int | None
    bytes_per_second: int | None
    used_up: bool
    next_day_seconds: float


class HeldStatus(Answer, frozen=True, kw_only=True):
    """Why messages may not leave now: `window`, `day` or `rate`."""

    by: str
    reason: str
    asked_again_in_seconds: float


class LinkStatus(Answer, frozen=True, kw_only=True):
    """The link to the hub; `followsInSeconds`: until a hub with a lower fencing number, refused now, is accepted."""

    state: str
    hub: str
    fence: int
    reason: str
    since_seconds: float | None
    offline_seconds: float
    last_contact_seconds: float | None
    follows_in_seconds: float | None
    plan: PlanStatus


class RenewalStatus(Answer, frozen=True, kw_only=True):
    """The renewal of the certificate: `due`, `asked`, `failing`, or `off` (another program renews the files)."""

    state: str
    in_seconds: float | None
    failures: int
    code: str
    reason: str


class IdentityStatus(Answer, frozen=True, kw_only=True):
    """The node's certificate; `authorities`: a digest of those the node trusts; `clockDistrusted`: why the device's
    clock is not trusted."""

    serial: str
    issuer: str
    expires: str | None
    renewal: RenewalStatus
    authorities: str
    clock_distrusted: str


class ObjectsStatus(Answer, frozen=True, kw_only=True):
    """The store of objects."""

    held: int
    damaged: int
    bytes: int
    max_bytes: int


class QueueStatus(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """One queue; `lane`: `live`, or empty; `leased` and `retrying` only for brokered endpoints."""

    endpoint: str
    priority: int
    lane: str
    queue: str
    length: int
    bytes: int
    oldest_age_seconds: float
    accepted: int
    sent: int
    expired: int
    evicted: int
    dead_lettered: int
    damaged: int
    in_doubt: int
    stalled: Stall | None
    deferred_topics: tuple[Stall, ...]
    held: HeldStatus | None
    leased: int = 0
    retrying: int = 0


class EncryptionStatus(Answer, frozen=True, kw_only=True):
    """Which stores are encrypted on disk (`none`, `secrets`, `all`), and the fingerprint of the key."""

    encrypt: str
    key: str


class StoreStatus(Answer, frozen=True, kw_only=True):
    """The store of messages; `diskFull`: the disk is full, so publishing is refused even below `maxBytes`."""

    bytes: int
    max_bytes: int
    disk_full: bool
    salvaged: str
    encryption: EncryptionStatus


class ToTable(Answer, frozen=True, kw_only=True):
    """Time from acceptance to a table, by this node's clock: messages measured since the start, and quantiles of the
    latest 512."""

    priority: int
    measured: int
    p50_seconds: float
    p95_seconds: float


class RefusedInput(Answer, frozen=True, kw_only=True):
    """Dead letters of input that was never accepted: how many, how many bytes they take, and their limit."""

    dead_letters: int
    bytes: int
    max_bytes: int


class AgentAccount(Answer, frozen=True, kw_only=True):
    """The agent's status."""

    node: str
    agent: str
    store_epoch: int
    link: LinkStatus
    identity: IdentityStatus | None
    objects: ObjectsStatus
    queues: list[QueueStatus]
    dead_letters: int
    refused_input: RefusedInput
    delivery: dict[str, dict[str, Any]]
    to_table: list[ToTable]
    statuses: dict[str, int]
    published: dict[str, int]
    store: StoreStatus
    routes: dict[str, message.RoutesStatus]
