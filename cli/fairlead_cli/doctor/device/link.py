"""The way to the hub, a step at a time: name, proxy, TCP, TLS, the upgrade, the hello.

dns ─▶ proxy ─▶ tcp ─▶ tls ─▶ upgrade ─▶ hello      the first step that fails is the finding; those after it wait
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Literal

import msgspec

from fairlead_cli.doctor.device import certificates, clock
from fairlead_cli.doctor.finding import Finding, ok, problem, warning
from fairlead_wire.identity.certificate import Certificate

Step = Literal["dns", "tcp", "tls", "upgrade", "hello"]
REMEDIES: dict[str, str] = {
    "dns": "correct hub_url, or the device's DNS (/etc/resolv.conf)",
    "tcp": "is the hub running, and does a firewall let this port through?",
    "tls": "renew the certificate named above, or name the right authority in tls_ca",
    "upgrade": "hub_url must name the hub's listen port, and a load balancer must pass WebSockets through",
    "hello": "see the reason; fairlead doctor --cluster looks at the other side",
}
REFUSALS: dict[str, str] = {
    "protocol": "install an agent of the hub's version: one version apart is supported",
    "identity": "name the certificate of this node, or correct node in the settings",
    "revoked": "this device's certificate was revoked: get it a token (fairlead token create --node {node} --replace)"
    " and join again",
    "starting": "the hub has just started; try again in a moment",
    "node_unknown": "kubectl label node {node} node-role.kubernetes.io/edge=  (create the Node if there is none)",
    "node_deleted": "the Node was deleted; create it again, or retire this device",
    "busy": "raise [link] nodes_max of the hub",
    "stale_hub": "start the agent: it follows this hub after [link] stale_hub_seconds (600); to end it now, where the"
    " cluster is administered: fairlead node approve {node}",
    "draining": "the hub is stopping; try again in a moment",
}


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """How far we came.  ``failed`` is the step that did not work, "" when all did; ``reason`` says why."""

    host: str
    port: int
    addresses: tuple[str, ...] = ()
    proxy: str = ""
    """The proxy an agent with these settings uses, without its password."""
    unused_proxy: str = ""
    """Set in the environment, and not used for this hub."""
    failed: Step | Literal[""] = ""
    reason: str = ""
    code: str = ""
    """Of the hub's refusal."""
    hub: str = ""
    hub_certificate: Certificate | None = None
    hub_time: datetime.datetime | None = None
    greeted: bool = False
    """A hello was sent and welcomed; else the agent that runs does that."""
    seconds: float = 0.0


def judge(trip: Trip, now: datetime.datetime, node: str) -> Iterator[Finding]:
    """One finding for each step that was taken."""
    where = f"{trip.host}:{trip.port}"
    yield from _proxies(trip)
    if trip.failed == "dns":
        yield problem("dns", f"{trip.host} cannot be resolved: {trip.reason}", REMEDIES["dns"])
        return
    yield ok("dns", f"{trip.host} is {', '.join(trip.addresses) or 'resolved by the proxy'}")
    if trip.hub_certificate is not None:
        hub = certificates.judge_one("certificate.hub", f"the certificate of {where}", trip.hub_certificate, now)
        yield hub
    yield from clock.judge_skew(trip.hub_time, now)
    if trip.failed:
        what = {"tcp": "no connection to", "tls": "no TLS with", "upgrade": "no WebSocket with", "hello": "refused by"}
        code = f" ({trip.code})" if trip.code else ""
        remedy = REFUSALS.get(trip.code, REMEDIES[trip.failed]).format(node=node)
        yield problem(f"link.{trip.failed}", f"{what[trip.failed]} {where}: {trip.reason}{code}", remedy)
        return
    reached = f"{where} was reached in {trip.seconds * 1000:.0f} ms"
    if trip.greeted:
        yield ok("link", f"{reached}; hub {trip.hub} welcomes this node")
    else:
        yield ok("link", f"{reached} as far as the WebSocket; the hello is the running agent's")


def _proxies(trip: Trip) -> Iterator[Finding]:
    if trip.proxy:
        text = f"the link goes through the proxy {trip.proxy}, by this shell's environment"
        yield warning("proxy", text, "give the agent's service the same variables, or set NO_PROXY to the hub's name")
    elif trip.unused_proxy:
        text = f"{trip.unused_proxy} is set and not used for {trip.host}: NO_PROXY or the kind of address excludes it"
        yield ok("proxy", text)
    else:
        yield ok("proxy", "no proxy is set in this environment")
