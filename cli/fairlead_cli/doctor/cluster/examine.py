"""Fetches what each check needs from the API; each check has its own client and time limit."""

from __future__ import annotations

import asyncio
import datetime
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Collection, Iterable

import msgspec

from fairlead_cli.cluster import collections, hub_role
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor.cluster import hub_lease, installation, objects, programs
from fairlead_cli.doctor.examination import Check, Finding, problem, warning
from fairlead_hub import leadership
from fairlead_hub.cluster.custom_resources import definitions as ours
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_hub.io.cluster.kube import Kube
from fairlead_wire import distribution
from fairlead_wire.objects import api_group

SECONDS = 30.0
READY_SECONDS = 5.0
READY_BYTES_MAX = 4096
REVIEWS_AT_ONCE = 16
LABELLED = "app.kubernetes.io/part-of=fairlead"
REACH = "check that the API server is reachable and that this user may read from it"
FORBIDDEN = 403
NOT_FOUND = 404
READ_ACCESS = "run fairlead doctor as a user with read access"
Judge = Callable[[Kube], Awaitable[Iterable[Finding]]]


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the examination."""

    namespace: str | None = None
    """The namespace of the programs; None: all namespaces that this user may read."""
    account: hub_role.ServiceAccount | None = None
    hub_url: str | None = None
    messaging_url: str | None = None


def checks(target: Target, places: Places) -> list[Check]:
    """All checks of the cluster."""
    at = f"namespaces/{places.namespace}/" if places.namespace else ""
    asked: list[tuple[str, Judge]] = [
        ("api", _server),
        ("definitions", _definitions),
        ("rights", lambda kube: _rights(kube, places)),
        ("hub.lease", lambda kube: _leases(kube, at)),
        ("pods", lambda kube: _pods(kube, at)),
        ("syncrule", lambda kube: _written(kube, "SyncRule", "syncrules")),
        ("edgeroutes", lambda kube: _written(kube, "EdgeRoutes", "edgeroutes")),
        ("nodes", _nodes),
        ("certificates", lambda kube: _authorities(kube, at)),
        ("quotas", lambda kube: _quotas(kube, at)),
    ]
    ready = [("hub", places.hub_url), ("messaging", places.messaging_url)]
    return [
        *(_check(target, name, judge) for name, judge in asked),
        *(_ready(name, url) for name, url in ready if url is not None),
    ]


def _check(target: Target, name: str, judge: Judge) -> Check:
    async def judged(kube: Kube) -> list[Finding]:
        try:
            return list(await judge(kube))
        except ApiRefused as error:
            remedy = {FORBIDDEN: "use an account that may read it", NOT_FOUND: installation.APPLY}.get(
                error.status, REACH
            )
            return [problem(name, f"{error}", remedy)]

    return Check(name, SECONDS, lambda: target.ask(judged), REACH)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def _server(kube: Kube) -> list[Finding]:
    return [installation.judge_server(json.loads(await kube.get("version")))]


async def _definitions(kube: Kube) -> Iterable[Finding]:
    found = await collections.items(kube, "apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return installation.judge_definitions([each.document() for each in ours.ALL], found)


async def _rights(kube: Kube, places: Places) -> Iterable[Finding]:
    delivered = await _delivered(kube)
    wanted = installation.needed(places.namespace or "default", delivered)
    some = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def allowed(right: installation.Right) -> bool:
        path, body = installation.review(right, places.account)
        async with some:
            answer = json.loads(await kube.request("POST", path, body))
        return bool((answer.get("status") or {}).get("allowed"))

    answers = await asyncio.gather(*map(allowed, wanted))
    judged = installation.judge_rights(dict(zip(wanted, answers, strict=True)), places.account)
    return [*judged, *await _surplus(kube, places, delivered)]


async def _surplus(kube: Kube, places: Places, delivered: Collection[tuple[str, str]]) -> list[Finding]:
    """The account asked for, or the only account of hubs."""
    try:
        accounts = [places.account] if places.account else await hub_role.hub_accounts(kube)
        if len(accounts) != 1:
            return []
        root = f"apis/{hub_role.API}/v1"
        bindings = await collections.items(kube, f"{root}/clusterrolebindings")
        may = hub_role.readable(accounts[0], bindings, await collections.items(kube, f"{root}/clusterroles"))
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise
        text = "this user may not read roles, so it was not checked whether a hub has more permissions than it needs"
        return [warning("rights", text, READ_ACCESS)]
    return [installation.judge_surplus(accounts[0], hub_role.surplus(may, delivered))]


async def _delivered(kube: Kube) -> set[tuple[str, str]]:
    """The plural names of the kinds in SyncRules; kinds that are not served are reported by ``syncrule``."""
    try:
        rules = await collections.items(kube, f"{api_group.ROOT}/syncrules")
    except ApiRefused:
        return set()
    return set((await hub_role.served(kube, hub_role.named(rules))).values())


async def _leases(kube: Kube, at: str) -> Iterable[Finding]:
    found = await collections.items(kube, f"apis/coordination.k8s.io/v1/{at}leases")
    mine = [each for each in found if str(each["metadata"]["name"]).startswith(leadership.NAME)]
    return programs.judge_leases(mine, _now())


async def _pods(kube: Kube, at: str) -> Iterable[Finding]:
    return programs.judge_pods(await collections.items(kube, f"api/v1/{at}pods", labelSelector=LABELLED))


async def _written(kube: Kube, kind: str, plural: str) -> Iterable[Finding]:
    return objects.judge_written(kind, await collections.items(kube, f"{api_group.ROOT}/{plural}"))


async def _nodes(kube: Kube) -> list[Finding]:
    found = await collections.items(kube, f"{api_group.ROOT}/edgenodes")
    agents = [str((each.get("status") or {}).get("agentVersion", "")) for each in found]
    is_hub_away = bool(await hub_lease.no_hub(kube))
    return [
        *objects.judge_nodes(found, is_hub_away=is_hub_away),
        *programs.judge_versions(agents, distribution.version()),
    ]


async def _authorities(kube: Kube, at: str) -> Iterable[Finding]:
    try:
        found = await collections.items(kube, f"api/v1/{at}secrets", labelSelector=LABELLED)
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise
        text = "this user may not read Secrets, so the certificates in them were not checked"
        return [warning("certificates", text, READ_ACCESS)]
    return installation.judge_secrets(found, _now())


async def _quotas(kube: Kube, at: str) -> Iterable[Finding]:
    return installation.judge_quotas(await collections.items(kube, f"api/v1/{at}resourcequotas"))


def _ready(name: str, url: str) -> Check:
    def probe() -> list[Finding]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{url.rstrip('/')}/readyz", timeout=READY_SECONDS) as answer:
                status, content = answer.status, answer.read(READY_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                status, content = error.code, error.read(READY_BYTES_MAX)
        except OSError as error:
            reason = getattr(error, "reason", error)
            return [programs.judge_ready(name, url, None, getattr(reason, "strerror", None) or str(reason))]
        return [programs.judge_ready(name, url, status, content.decode(errors="replace"))]

    return Check(f"{name}.ready", SECONDS, probe, f"check that {name} is running")
