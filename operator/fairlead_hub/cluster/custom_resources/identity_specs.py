"""What users and the command line write to admit nodes and to revoke them, field by field, with limits."""

from __future__ import annotations

from typing import Annotated, Any, Self

import pydantic
from pydantic import Field

from fairlead_hub.cluster.custom_resources.specs import SpecModel, closed, like
from fairlead_hub.cluster.custom_resources.statuses import ResourceStatus, StatusModel
from fairlead_wire.validation import mistakes

NODE = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
USES_MAX = 1000
"""Per token: its record must fit into etcd (1.5 MiB)."""
USED_BY_CHARS_MAX = 320
"""One name of 253 characters, and a count of the others."""
_HEX_64 = r"^[0-9a-f]{64}$"
_TIME: dict[str, Any] = {"format": "date-time"}
_IMMUTABLE = ("self == oldSelf", "a join token is immutable; delete it and create another")


class Revoked(SpecModel):
    model_config = closed()

    before: str = Field(
        max_length=64,
        description="Certificates of this name that were issued earlier are refused permanently.",
        json_schema_extra=_TIME,
    )
    reason: str | None = Field(default=None, max_length=1024, description="Reason, for people.")


class EdgeNodeSpec(SpecModel):
    model_config = closed()

    revoked: Revoked | None = Field(default=None, description="Revocation of certificates of this node.")


class JoinTokenSpec(SpecModel):
    model_config = closed(_IMMUTABLE, ("has(self.node) != has(self.pattern)", "one of node and pattern"))

    secret_sha256: Annotated[str, like(_HEX_64, "is no SHA-256 in hexadecimal")] = Field(
        alias="secretSHA256",
        max_length=64,
        description="SHA-256 of the token's secret, in hexadecimal.",
        json_schema_extra={"pattern": _HEX_64},
    )
    node: Annotated[str, like(f"^{NODE}$", "is no name of a Node")] | None = Field(
        default=None,
        max_length=253,
        description="Name of the node that the token admits.",
        json_schema_extra={"pattern": f"^{NODE}$"},
    )
    pattern: Annotated[str, like(r"^[-a-z0-9.]*\*$", "is no pattern; one is like shop-*")] | None = Field(
        default=None,
        max_length=253,
        description="Pattern for names of admitted nodes: a prefix, then *.",
        json_schema_extra={"pattern": r"^[-a-z0-9.]*\*$"},
    )
    expires: str = Field(max_length=64, description="When the token expires.", json_schema_extra=_TIME)
    uses: Annotated[int, Field(ge=1, le=USES_MAX)] = Field(default=1, description="How many nodes the token admits.")
    replace: bool = Field(
        default=False,
        description="Whether to admit a node that already has a certificate, which is then revoked. Requires node.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if (self.node is None) == (self.pattern is None):
            raise mistakes.wrong("node", "one of node and pattern")
        return self


class JoinTokenUse(StatusModel):
    node: str = Field(description="Name of the admitted node.", max_length=253)
    key_sha256: str = Field(alias="keySHA256", description="SHA-256 of the node's public key.", max_length=64)
    serial: str = Field(description="Serial number of the certificate, in hexadecimal.", max_length=64)
    time: str = Field(description="When the node was admitted.", json_schema_extra=_TIME)
    not_before: str | None = Field(
        default=None, alias="notBefore", description="Start of the certificate's validity.", json_schema_extra=_TIME
    )
    not_after: str | None = Field(
        default=None, alias="notAfter", description="End of the certificate's validity.", json_schema_extra=_TIME
    )
    node_uid: str | None = Field(
        default=None,
        alias="nodeUID",
        max_length=128,
        description="UID of the Node at that time; absent if there was none.",
    )


class JoinTokenStatus(ResourceStatus):
    pins: list[Annotated[str, Field(max_length=64)]] | None = Field(
        default=None,
        max_length=4,
        description="SHA-256 of the public keys of the authorities by which a device verifies the hub.",
    )
    url: str | None = Field(default=None, max_length=2048, description="Address at which devices reach the hub.")
    uses: list[JoinTokenUse] | None = Field(
        default=None, max_length=USES_MAX, description="Nodes that the token admitted."
    )
    used_by: str | None = Field(
        default=None,
        alias="usedBy",
        max_length=USED_BY_CHARS_MAX,
        description="Names of admitted nodes for kubectl's column: the first, and how many more.",
    )
