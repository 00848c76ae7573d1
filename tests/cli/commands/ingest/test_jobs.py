"""`fairlead ingest jobs`: how far jobs are behind, as messaging knows it."""

from __future__ import annotations

import json

from click.testing import CliRunner
from tests.support.topics.messaging import Topics

from fairlead_cli.main import build
from fairlead_messaging.client.io.sync_client import Client


def test_jobs_are_listed_with_what_they_lack(messaging: Topics) -> None:
    """A job that committed the first of two messages is one behind; without a command it is the same."""
    none = CliRunner().invoke(build(), ["ingest", "jobs", "--url", messaging.url])
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no job has reported its position yet\n")
    with Client(messaging.url) as client:
        client.create_topic("default", "orders")
        client.publish("default", "orders", [b"a", b"b"])
        first = client.poll("default", "orders").messages[0].id
        client.note_reader("default", "orders", "sales", position=first)
    done = CliRunner().invoke(build(), ["ingest", "--url", messaging.url, "-o", "json"])
    (job,) = json.loads(done.stdout)["items"]
    assert (job["job"], job["topic"], job["lagMessages"]) == ("sales", "default/orders", 1)
    table = CliRunner().invoke(build(), ["ingest", "jobs", "--url", messaging.url]).stdout.splitlines()
    assert table[0].startswith("JOB") and table[1].split()[:3] == ["sales", "default/orders", "1"]
