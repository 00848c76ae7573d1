"""Which Node object a certificate belongs to: recreating a deleted Node does not make its old certificates valid again.

    first session ─▶ bound to (Node UID, certificate's issue time), kept in EdgeNode's status, which outlives the Node
    Node recreated (another UID) ─┬─ a certificate issued later ─▶ bound to the new Node
                                  └─ the same, or an older one ─▶ held until a person approves it

Certificates that a person revoked (``EdgeNode.spec.revoked``) are refused in any case.

Deleting a Node is meant to cut it off; a kubelet that registers again, or the thief of a disk, must not undo that
unnoticed.  Clocks are not compared: of two certificates of one authority the newer one was issued deliberately.
Times are RFC 3339 text in UTC, so that they compare as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from fairlead_hub.identity import revocation
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.identity.revocation import Revocation
from fairlead_wire.objects.api_group import APPROVE_IDENTITY

HELD_RETRY_SECONDS = 60.0
ISSUERS_MAX = 16
"""Distinguished when nodes are counted."""
OTHERS = "(others)"


class NodeCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a node's certificate contains."""

    issued: str
    expires: str
    serial: str = ""
    """In hexadecimal."""
    issuer: str = ""
    """Common name of the authority that signed it."""


class CertificateBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The Node object its certificates were used with, and the newest of them."""

    node_uid: str
    issued: str
    expires: str
    serial: str = ""
    issuer: str = ""
    former: str = ""
    """Issue time of the newest certificate used with an earlier Node of this name.  Once a newer one is accepted for
    the current Node, that one and older ones are refused."""


class Identities:
    """``judge`` when a session opens, and again when Nodes and EdgeNodes are known; ``status`` for EdgeNode."""

    def __init__(self, plan: RenewalPlan, *, accept_recreated: bool = False) -> None:
        """``plan``: when certificates are renewed."""
        self.plan = plan
        self._accept = accept_recreated
        self._bound: dict[str, CertificateBinding] = {}
        self._approved: dict[str, str] = {}
        self._shown: dict[str, NodeCertificate] = {}
        self.revoked: dict[str, Revocation] = {}
        """Revocations by node."""
        self.held: dict[str, str] = {}
        """Nodes whose certificate waits for approval → what to approve: the UID of the recreated Node, or a claim."""
        self._renewed: dict[str, NodeCertificate] = {}
        """Certificates that were issued in a session and not used yet."""
        self._failures: dict[str, str] = {}
        """Why the last renewal failed."""

    def observed(self, node: str, status: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
        """Its EdgeNode as it is in the API; bindings from before a restart are restored."""
        found = status.get("identity")
        if node not in self._bound and isinstance(found, dict):
            texts = [found.get(key) for key in ("nodeUID", "issued", "expires")]
            if all(isinstance(text, str) and text for text in texts):
                uid, issued, expires = map(str, texts)
                serial, issuer, former = (str(found.get(key) or "") for key in ("serial", "issuer", "formerIssued"))
                self._bound[node] = CertificateBinding(
                    node_uid=uid, issued=issued, expires=expires, serial=serial, issuer=issuer, former=former
                )
        self._approved.pop(node, None)
        if APPROVE_IDENTITY in annotations:
            self._approved[node] = annotations[APPROVE_IDENTITY]

    def spec_observed(self, node: str, spec: Mapping[str, Any]) -> bool:
        """Read its EdgeNode's spec.  Returns True if it revokes something it did not before."""
        before, found = self.revoked.pop(node, None), revocation.read(spec)
        if found is not None:
            self.revoked[node] = found
        return found is not None and (before is None or before.before < found.before)

    def revoked_why(self, node: str, issued: str) -> str:
        """Why a certificate of this name with this not-before is revoked; empty if it is not."""
        found = self.revoked.get(node)
        return found.why(node) if found is not None and found.covers(issued) else ""

    def revoked_in_use(self, node: str) -> str:
        """Why the newest certificate it has used is revoked; empty if it is not."""
        bound = self._bound.get(node)
        return self.revoked_why(node, bound.issued if bound is not None else "")

    def opened(self, node: str, shown: NodeCertificate | None) -> None:
        """A session was opened with this certificate; without one (``insecure``) nothing is bound."""
        if shown is None:
            self._shown.pop(node, None)
        else:
            self._shown[node] = shown

    def renew_after(self, shown: NodeCertificate, now: float) -> float | None:
        """Seconds after which a node with this certificate should renew it; None if this hub signs none."""
        return self.plan.renew_after(issued=shown.issued, expires=shown.expires, issuer=shown.issuer, now=now)

    def of_session(self, node: str) -> NodeCertificate | None:
        """The certificate with which its session was opened."""
        return self._shown.get(node)

    def judge(self, node: str, node_uid: str, shown: NodeCertificate | None) -> str:
        """Why this certificate is not accepted for the Node with this UID; empty if it is, and then it is bound."""
        bound = self._bound.get(node)
        if shown is None or not node_uid:
            return ""
        if bound is not None and not self._is_taken(node, node_uid, shown, bound):
            self.held[node] = node_uid
            return (
                f"Node {node} was deleted and recreated, and this certificate is older: issue a new one,"
                f" or: fairlead node approve {node} (annotation {APPROVE_IDENTITY}={node_uid} on its EdgeNode)"
            )
        self.held.pop(node, None)
        renewed = self._renewed.get(node)
        if renewed is not None and shown.issued >= renewed.issued:
            del self._renewed[node]
        if bound is None or bound.node_uid != node_uid or bound.issued < shown.issued:
            former = self._former(node_uid, shown, bound) if bound is not None else ""
            self._bound[node] = CertificateBinding(node_uid=node_uid, former=former, **msgspec.structs.asdict(shown))
        return ""

    def _is_taken(self, node: str, node_uid: str, shown: NodeCertificate, bound: CertificateBinding) -> bool:
        former = bound.former if bound.node_uid == node_uid else bound.issued
        return self._accept or shown.issued > former or self._approved.get(node) == node_uid

    @staticmethod
    def _former(node_uid: str, shown: NodeCertificate, bound: CertificateBinding) -> str:
        if bound.node_uid == node_uid:
            return bound.former
        return bound.issued if shown.issued > bound.issued else ""  # otherwise a person wanted it back

    def bound(self, node: str) -> CertificateBinding | None:
        """The newest of its certificates that was used, and with which Node object."""
        return self._bound.get(node)

    def approved(self, node: str) -> str:
        """The value that a person approved; empty if none."""
        return self._approved.get(node, "")

    def hold(self, node: str, value: str) -> None:
        """The node wants a new certificate and waits until a person approves this value."""
        self.held[node] = value

    def release(self, node: str) -> None:
        """Nothing waits any more."""
        self.held.pop(node, None)

    def newest(self, node: str) -> NodeCertificate | None:
        """For a node with a session: the certificate of its next one."""
        return self._renewed.get(node) or self._shown.get(node)

    def issued(self, node: str, shown: NodeCertificate) -> None:
        """A new certificate was issued; the node uses it from its next session on."""
        self._renewed[node] = shown
        self._failures.pop(node, None)

    def renewal_failed(self, node: str, why: str) -> None:
        """Its session continues, and it asks again."""
        self._failures[node] = why

    def issuers(self, connected: Container[str]) -> Counter[tuple[str, bool]]:
        """Number of nodes by the authority of their newest certificate, and whether they have a session.

        An authority that no node has left may be removed from the trusted ones.
        """
        newest = {node: self._renewed.get(node, bound).issuer for node, bound in self._bound.items()}
        named = {issuer for issuer, _ in Counter(newest.values()).most_common(ISSUERS_MAX)}
        return Counter((name if name in named else OTHERS, node in connected) for node, name in newest.items())

    def is_bound(self, node: str) -> bool:
        """Whether one of its certificates was used in a session."""
        return node in self._bound

    def expired(self, now: str) -> list[str]:
        """Nodes whose certificates have all expired.  Revocations are only removed by people."""
        return [n for n, bound in self._bound.items() if bound.expires < now and n not in self.revoked]

    def forget(self, node: str) -> None:
        tables: tuple[dict[str, Any], ...] = (
            self._bound, self._approved, self._shown, self.held, self.revoked, self._renewed, self._failures,
        )  # fmt: skip
        for table in tables:
            table.pop(node, None)

    def status(self, node: str) -> dict[str, Any] | None:
        """The identity part of EdgeNode's status; None if there is nothing to remember."""
        bound, held = self._bound.get(node), self.held.get(node, "")
        if bound is None and not held and node not in self.revoked:
            return None
        found = {
            "nodeUID": bound.node_uid if bound is not None else "",
            "issued": bound.issued if bound is not None else "",
            "expires": self._expires(node, bound),
            "held": held,
            "renewal": self._failures.get(node, ""),
            "state": "Revoked" if self.revoked_in_use(node) else "Held" if held else "Valid",
        }
        if bound is not None and (bound.serial or bound.issuer):
            found |= {"serial": bound.serial, "issuer": bound.issuer}
        if bound is not None and bound.former:
            found["formerIssued"] = bound.former
        return found

    def _expires(self, node: str, bound: CertificateBinding | None) -> str:
        """Expiry of the newest certificate it has, used or not."""
        renewed = self._renewed.get(node)
        return max(bound.expires if bound is not None else "", renewed.expires if renewed is not None else "")
