"""Every query of the dashboards and alerts, asked of a real Prometheus that scrapes a live line of real programs.

It finds a renamed metric, a label that is none, and a query that Prometheus does not understand.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator

import pytest
import yaml
from charts.dashboards import files
from tests.support.hubs.hub import config_map, sync_rule
from tests.support.kube.charts import CHARTS
from tests.support.kube.prometheus import Prometheus
from tests.support.processes import free_ports, start, wait_until
from tests.support.tools import tool
from tests.support.whole_line import TOPIC, WholeLine

pytestmark = [pytest.mark.verify, pytest.mark.kube, pytest.mark.spark]
SECONDS = 480.0
"""Spark starts for ten seconds alone, and for minutes beside others."""
QUIET = {
    "fairlead_hub_refused_sessions_total": "no session is refused",
    "fairlead_hub_openings_failed_total": "no connection fails",
    "fairlead_hub_retries_total": "nothing is sent twice",
    "fairlead_hub_parkings_total": "nothing is given up",
    "fairlead_hub_watch_restarts_total": "no watch breaks",
    "fairlead_hub_inputs_total": "no message is sent to a module",
    "fairlead_hub_status_reports_total": "no node reports status",
    "fairlead_hub_upstream_deferred_total": "messaging takes every batch",
    "fairlead_hub_upstream_refused_total": "no message is refused",
    "fairlead_edge_queue_leased": "no module takes messages",
    "fairlead_edge_queue_retrying": "no module takes messages",
    "fairlead_edge_queue_held": "nothing may not leave",
    "fairlead_edge_link_day_bytes_max": "this edge has no data plan",
    "fairlead_messaging_known_messages_total": "no batch is sent twice",
    "fairlead_messaging_topic_blocked_seconds": "no transaction is open",
    "fairlead_messaging_pushed_messages_total": "there is no subscription",
    "fairlead_messaging_refused_requests_total": "no request is refused",
    "fairlead_messaging_access_refused_total": "this line is insecure: nothing is refused to anybody",
    "fairlead_messaging_quota_refused_total": "no namespace has a quota",
    "fairlead_messaging_quota_stored_bytes": "no namespace has a quota",
    "fairlead_messaging_quota_stored_bytes_max": "no namespace has a quota",
    "fairlead_messaging_closed_connections_total": "no connection is closed",
    **dict.fromkeys(
        (f"fairlead_{room}_certificate_ends_timestamp_seconds" for room in ("hub", "messaging", "edge")),
        "this line is insecure: there are no certificates",
    ),
    "fairlead_hub_signer_ends_timestamp_seconds": "this line is insecure: no certificate is signed",
    "fairlead_ingest_failures_total": "no query fails",
}
"""Metrics without a series where nothing goes wrong, and why: the first value of a label makes its first series."""
ALERTS = {path.stem: path for path in sorted((CHARTS / "fairlead" / "files" / "alerts").glob("*.yaml"))}
QUIET_NAMES = QUIET.keys()
METRIC = re.compile(r"fairlead_(?:hub|edge|messaging|ingest)_\w+")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Hub, messaging, one edge and ingest, each with something to do, and a Prometheus beside them."""
    tool("prometheus")
    folder = tmp_path_factory.mktemp("scraped")
    with WholeLine(folder) as line:
        line.cluster.apply(sync_rule("all", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["default"]}))
        line.cluster.apply(config_map("prices", "default", bread="2"))
        line.edge.publish([{"source": "/messages/modules/m/outputs/o", "properties": {"p": "1"}, "body": 1}])
        (port,) = free_ports(1)
        config = folder / "ingest.toml"
        config.write_text(
            f'messaging_url = "{line.messaging.url}"\ntopics = ["{TOPIC}"]\ntable = "{folder}/rows"\n'
            f'checkpoint = "{folder}/checkpoint"\nsecurity = "insecure"\ntrigger = 1\n'
            f'http_listen = "127.0.0.1:{port}"\n[latest]\nkey = ["node"]\nseconds = 0\n'
        )
        command = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]
        ingest = start("ingest", command, folder / "ingest.log")
        targets = {
            "fairlead-hub": line.hub.http_port,
            "fairlead-messaging": int(line.messaging.url.rpartition(":")[2]),
            "fairlead-edge": line.edge.port,
        }
        try:
            wait_until("ingest serves", lambda: _serves(port), seconds=SECONDS, describe=ingest.tail)
            labels = {"fairlead-edge": {"node": "edge-1"}}
            with Prometheus(folder / "prometheus", {**targets, "fairlead-ingest": port}, labels) as found:
                wait_until(
                    "the message is a row and a commit is scraped",
                    lambda: found.ask("fairlead_ingest_rows_total > 0"),
                    seconds=SECONDS, describe=ingest.tail,
                )  # fmt: skip
                yield found
        finally:
            ingest.kill()


def _serves(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def answered(prometheus: Prometheus, queries: dict[str, str]) -> None:
    """Each gives a series as soon as there are two scrapes of it; raises with those that do not."""
    left = dict(queries)

    def all_answer() -> bool:
        for place, query in list(left.items()):
            if prometheus.ask(query):
                del left[place]
        return not left

    wait_until("every query gives a series", all_answer, seconds=SECONDS, describe=lambda: f"none from: {left}")


@pytest.mark.parametrize("name", files.DASHBOARDS)
def test_every_panel_shows_something(name: str, prometheus: Prometheus) -> None:
    """But for what only trouble brings, which is understood all the same."""
    expected = {}
    for panel in files.dashboard(name)["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "1m")
            if set(METRIC.findall(query)) <= QUIET_NAMES:
                prometheus.ask(query)
            else:
                expected[f"{panel['title']}: {target['legendFormat']}"] = query
    answered(prometheus, expected)


@pytest.mark.parametrize("room", ALERTS)
def test_every_alert_asks_for_series_there_are(room: str, prometheus: Prometheus) -> None:
    """In a line where nothing goes wrong no alert has a reason, so each metric in it is asked for by itself."""
    expected = {}
    for group in yaml.safe_load(ALERTS[room].read_text())["groups"]:
        for rule in group["rules"]:
            prometheus.ask(rule["expr"])
            for metric in set(METRIC.findall(rule["expr"])) - QUIET_NAMES:
                expected[f"{rule['alert']}: {metric}"] = metric
    answered(prometheus, expected)


def test_the_jobs_have_the_names_that_alerts_ask_for(prometheus: Prometheus) -> None:
    """`absent(up{job="fairlead-hub"} == 1)` would fire for ever under another name; the charts set the same."""
    asked = {found for path in ALERTS.values() for found in re.findall(r'job="([^"]+)"', path.read_text())}

    def the_same() -> bool:
        return asked == {each["metric"]["job"] for each in prometheus.ask("up == 1")}

    wait_until("every job is up", the_same, seconds=SECONDS, describe=lambda: str(prometheus.ask("up")))
