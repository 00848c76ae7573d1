"""Ten bad files for each program: everything that is wrong with each, in the words a person reads, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.io import settings

MODELS: dict[str, Any] = {
    "hub": HubSettings,
    "edge": EdgeSettings,
    "messaging": MessagingSettings,
    "ingest": IngestSettings,
}
INSECURE = 'security = "insecure"\n'
NO_TLS_FILES = [f'{key}: required with security = "mtls"' for key in ("tls_ca", "tls_cert", "tls_key")]
BAD: list[tuple[str, str, list[str]]] = [
    (
        "hub",
        'lisen = "x"\nsecurty = "insecure"\n',
        ["lisen: unknown key; did you mean listen?", "securty: unknown key; did you mean security?", *NO_TLS_FILES],
    ),
    (
        "hub",
        INSECURE + 'listen = "0.0.0.0:1"\nhttp_listen = "nowhere"\nmessaging_url = "ftp://x"\n',
        [
            "http_listen: must be host:port, is 'nowhere'",
            'listen: must be a loopback address with security = "insecure", is 0.0.0.0',
            "messaging_url: must begin with http:// or https://",
        ],
    ),
    (
        "hub",
        INSECURE + '[record]\nflush_seconds = "1"\npending_secnds = 3\nwrites_in_flight = 0\n',
        [
            "record.flush_seconds: must be a number from 0.01 to 3600, is '1'",
            "record.writes_in_flight: must be a whole number from 1 to 1024, is 0",
            "record.pending_secnds: unknown key; did you mean record.pending_seconds?",
        ],
    ),
    (
        "hub",
        INSECURE + '[delivery]\nminimum_delay = 9\nmaximum_delay = 3\njiter = "full"\nack_timeout = 0\n',
        [
            "delivery.ack_timeout: must be a number from 0.05 to 3600, is 0",
            "delivery.jiter: unknown key; did you mean delivery.jitter?",
            "delivery.maximum_delay: must not be below minimum_delay, is 3 < 9",
        ],
    ),
    (
        "hub",
        INSECURE + '[delivery]\nretry_backoff_function = "cubic"\njitter = 1\nretries_max = 2.5\n',
        [
            "delivery.retry_backoff_function: must be one of linear, arithmetic, geometric, exponential, is 'cubic'",
            "delivery.retries_max: must be a whole number, is 2.5",
            "delivery.jitter: must be one of none, full, equal, decorrelated, is 1",
        ],
    ),
    (
        "hub",
        INSECURE + '[link]\nnodes_max = 1.5\nrecreated_nodes = "held"\nkeepalive_seconds = nan\n',
        [
            "link.keepalive_seconds: must be a number from 0.1 to 600, is nan",
            "link.nodes_max: must be a whole number from 1 to 1000000, is 1.5",
            "link.recreated_nodes: must be one of hold, accept, is 'held'; did you mean hold?",
        ],
    ),
    (
        "hub",
        INSECURE + 'record = 3\nlink = []\nevents = "x"\n',
        [
            "record: must be keys and values, is 3",
            "link: must be keys and values, is []",
            "events: must be keys and values, is 'x'",
        ],
    ),
    (
        "hub",
        INSECURE + '[events]\ntopic = "default/x"\n[window]\nbytes = 1\nmessages = true\n',
        [
            "window.messages: must be a whole number from 1 to 65536, is True",
            "window.bytes: must be a whole number from 1024 to 1073741824, is 1",
            "events.topic: must be system/NAME, or empty for no events, is 'default/x'",
        ],
    ),
    (
        "hub",
        'security = "mtls"\nlog_level = "verbose"\n[identity]\nlink_ca = 5\n',
        [
            "log_level: must be one of debug, info, warning, error, is 'verbose'",
            "identity.link_ca: must be text, is 5",
            *NO_TLS_FILES,
        ],
    ),
    (
        "hub",
        INSECURE + "[reconcile]\nparked_retry_seconds = 500\nparked_retry_max_seconds = 100\nflush_seconds = 3\n",
        [
            "reconcile.flush_seconds: unknown key",
            "reconcile.parked_retry_max_seconds: must be at least parked_retry_seconds, 500, is 100",
        ],
    ),
    (
        "edge",
        'nod = "x"\n',
        [
            "node: required, but not set",
            "hub_url: required, but not set",
            "data_dir: required, but not set",
            "nod: unknown key; did you mean node?",
        ],
    ),
    (
        "edge",
        INSECURE + 'node = "Edge_1"\nhub_url = "hub"\ndata_dir = ""\nhttp_listen = "0.0.0.0:1"\n',
        [
            "node: must be the name of a Kubernetes Node, is 'Edge_1'",
            "data_dir: must be a folder",
            "hub_url: must be wss://host:port, is 'hub'",
            'http_listen: must be a loopback address with security = "insecure"',
        ],
    ),
    (
        "edge",
        INSECURE + 'node = "e"\nhub_url = "ws://h"\ndata_dir = "d"\nhealth_listen = "x"\n',
        ["health_listen: must be host:port, is 'x'", "hub_url: must name the port, for example ws://h:10000"],
    ),
    (
        "edge",
        INSECURE + 'node = 3\nhub_url = "ws://h:1"\ndata_dir = "d"\n[store]\nmax_bytes = 1\nevict = "less"\n',
        [
            "node: must be text, is 3",
            "store.max_bytes: must be a whole number of at least 16384, is 1",
            "store.evict: must be one of never, less-urgent, is 'less'",
        ],
    ),
    (
        "edge",
        'node = "e"\nhub_url = "ws://h:1"\ndata_dir = "d"\n',
        ['hub_url: ws:// only with security = "insecure"', *NO_TLS_FILES],
    ),
    (
        "edge",
        INSECURE + '[cleanup]\ninterval_seconds = 0\ncheck_entire_queue = true\n[link]\nattempt_seconds_max = "1"\n',
        [
            "node: required, but not set",
            "hub_url: required, but not set",
            "data_dir: required, but not set",
            "cleanup.interval_seconds: must be a number above 0 and at most 86400, is 0",
            "cleanup.check_entire_queue: unknown key; did you mean cleanup.check_entire_queue_on_cleanup?",
            "link.attempt_seconds_max: must be a number from 0.01 to 3600, is '1'",
        ],
    ),
    (
        "edge",
        INSECURE + 'node = "e"\nhub_url = "ws://u:secret@h:1x"\ndata_dir = "d"\n',
        ["hub_url: must be wss://host:port, is 'ws://[secret]@h:1x'"],
    ),
    (
        "edge",
        INSECURE + "store = 3\nlink = []\n",
        [
            "node: required, but not set",
            "hub_url: required, but not set",
            "data_dir: required, but not set",
            "store: must be keys and values, is 3",
            "link: must be keys and values, is []",
        ],
    ),
    (
        "edge",
        'security = "tls"\nnode = "e"\nhub_url = "ws://h:1"\ndata_dir = "d"\nmax_bytes = 5\n',
        [
            "security: must be one of mtls, insecure, is 'tls'; did you mean mtls?",
            "max_bytes: unknown key; did you mean store.max_bytes?",
        ],
    ),
    ("edge", "node = \n", ["not TOML: Invalid value (at line 1, column 8)"]),
    ("edge", 'node = "a"\n\nnode = "b" # again\n', ["node is set twice (line 3)"]),
    ("edge", 'node = "a"\nnode = "b"', ["node is set twice (line 2)"]),
    ("edge", "[link]\n[pump]\n[link]\n", ["[link] is given twice (line 3): put its keys into one table"]),
    ("edge", "[[windows]]\n[windows]\n", ["[windows] is given twice (line 2): put its keys into one table"]),
    (
        "edge",
        f'node = "edge-1"\nhub_url = "ws://127.0.0.1:1"\ndata_dir = "/d"\n{INSECURE}[windows]\npriorities = [8]\n',
        ["windows: there may be several: write [[windows]], with two brackets"],
    ),
    (
        "messaging",
        'http_listn = "x"\nstore = "paper"\n',
        [
            "store: must be one of rocksdb, sqlite, memory, cassandra, is 'paper'",
            "http_listn: unknown key; did you mean http_listen?",
            *NO_TLS_FILES,
        ],
    ),
    (
        "messaging",
        INSECURE
        + 'http_listen = "127.example.com:80"\n[[access]]\nsubject = "a"\nverbs = ["publish"]\ntopics = ["*"]\n',
        [
            'http_listen: must be a loopback address with security = "insecure", is 127.example.com',
            'access: needs security = "mtls": without it no client has a name',
        ],
    ),
    (
        "messaging",
        INSECURE + 'system_topics = ["a b", "c:0"]\ndefault_ttl_seconds = 0\n',
        [
            "system_topics: 'a b': not a topic name",
            "default_ttl_seconds: must be a whole number from 1 to 2147483647, is 0",
        ],
    ),
    (
        "messaging",
        INSECURE + 'access = "hub"\nsystem_topics = [1]\n',
        ["access: must be a list, is 'hub'", "system_topics[0]: must be text, is 1"],
    ),
    (
        "messaging",
        INSECURE + "bodies_bytes_max = 1000\npages_bytes_max = 5\nbody_bytes_max = 100000\n",
        [
            "bodies_bytes_max: must be at least body_bytes_max (100000), is 1000",
            "pages_bytes_max: must be at least body_bytes_max (100000), is 5",
        ],
    ),
    (
        "messaging",
        'security = "mtls"\nstore = "cassandra"\n',
        ['cassandra.contact_points: required with store = "cassandra": name some of its nodes', *NO_TLS_FILES],
    ),
    (
        "messaging",
        INSECURE + "[cache]\nmax_bytes = -1\nmax_byte = 3\n[cleanup]\ninterval = 3\n",
        [
            "cache.max_bytes: must be a whole number of at least 0, is -1",
            "cache.max_byte: unknown key",
            "cleanup.interval: unknown key",
        ],
    ),
    (
        "messaging",
        INSECURE + 'poll_limit_max = 0\npoll_bytes_max = "big"\nlong_polls_max = 99999999999\n',
        [
            "poll_limit_max: must be a whole number from 1 to 2147483647, is 0",
            "poll_bytes_max: must be a whole number from 1 to 2147483647, is 'big'",
            "long_polls_max: must be a whole number from 1 to 2147483647, is 99999999999",
        ],
    ),
    (
        "messaging",
        INSECURE + 'cache = "off"\nlog_level = "trace"\n',
        [
            "log_level: must be one of debug, info, warning, error, is 'trace'",
            "cache: must be keys and values, is 'off'",
        ],
    ),
    (
        "messaging",
        "data_dir = 5\nrequest_seconds_max = inf\n",
        [
            "data_dir: must be text, is 5",
            "request_seconds_max: must be a number from 0.05 to 3600, is inf",
            *NO_TLS_FILES,
        ],
    ),
    (
        "ingest",
        'messaging_ur = "x"\n',
        ["messaging_url: required, but not set", "messaging_ur: unknown key; did you mean messaging_url?"],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "https://h:1"\ntopics = ["a"]\ntable = "s3://x/y"\ncheckpoint = "c"\n',
        [
            "topics[0]: must be namespace/name, is 'a'",
            "table: must name a bucket: s3://bucket/path, is 's3://x/y'",
            'messaging_url: must begin with http:// with security = "insecure"',
        ],
    ),
    ("ingest", INSECURE + 'messaging_url = "http://h:1"\n', ["topics: required, but not set (or give [[pipelines]])"]),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n'
        'topics = ["a/b","a/b"]\n'
        'table = "t"\n'
        'checkpoint = "t/c"\n'
        'format = "csv"\n',
        [
            "format: must be one of envelope, raw, is 'csv'",
            "topics: a topic is repeated",
        ],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n'
        'trigger = "often"\n'
        'starting_position = "soon"\n'
        'topics = ["a/b"]\n'
        'table = "t"\n'
        'checkpoint = "t/c"\n',
        [
            "trigger: must be \"available-now\" or seconds, is 'often'",
            "starting_position: must be earliest, latest, table or an ISO time, is 'soon'",
            "checkpoint: t/c, the checkpoint of ingest, is inside the rows of ingest; move it outside",
        ],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n'
        "[[pipelines]]\n"
        'topics = ["a/b"]\n'
        'table = "t"\n'
        "[[pipelines]]\n"
        'topics = "a/b"\n'
        'table = "t"\n'
        'checkpoint = "c"\n'
        'formt = "raw"\n',
        [
            "pipelines[0].checkpoint: required, but not set",
            "pipelines[1].topics: must be a list, is 'a/b'",
            "pipelines[1].formt: unknown key; did you mean pipelines[1].format?",
        ],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n'
        'format = "raw"\n'
        'schema = "s"\n'
        "[[pipelines]]\n"
        'topics = ["a/b"]\n'
        'table = "t"\n'
        'checkpoint = "c"\n'
        "[[pipelines]]\n"
        'name = "x"\n'
        'topics = ["a/b"]\n'
        'table = "t2"\n'
        'checkpoint = "c"\n',
        [
            'pipelines[0].format: "raw" cannot be used with schema or dedupe_seconds',
            'pipelines[1].format: "raw" cannot be used with schema or dedupe_seconds',
        ],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n[limits]\nbatch_rows = 0\npage_row = 1\n[spark]\nconf = {a = 1}\n',
        [
            "limits.batch_rows: must be a whole number of at least 1, is 0",
            "limits.page_row: unknown key; did you mean limits.page_rows?",
            "spark.conf.a: must be text, is 1",
            "topics: required, but not set (or give [[pipelines]])",
        ],
    ),
    (
        "ingest",
        'messaging_url = "http://h:1"\nreader = "a/b"\nrequest_seconds = 0\ntransforms = ["x"]\n',
        [
            "transforms[0]: must be module:function or path.py:function, is 'x'",
            "reader: must be letters, digits, '.', '_' and '-' only, at most 128, is 'a/b'",
            "request_seconds: must be a number above 0, is 0",
            'messaging_url: must begin with https:// with security = "mtls"',
            *NO_TLS_FILES,
            "topics: required, but not set (or give [[pipelines]])",
        ],
    ),
    (
        "ingest",
        INSECURE + 'messaging_url = "http://h:1"\n'
        'http_listen = "127.example.com:1"\n'
        'on_expired = "ignore"\n'
        "on_recreated = 3\n"
        "dedupe_seconds = -1\n"
        "starting_position = true\n",
        [
            "starting_position: must be text or a whole number or a time, is True",
            "dedupe_seconds: must be a number of at least 0, is -1",
            "on_expired: must be one of count, gap, fail, is 'ignore'",
            "on_recreated: must be one of fail, restart, is 3",
            'http_listen: must be a loopback address with security = "insecure"',
            "topics: required, but not set (or give [[pipelines]])",
        ],
    ),
]


@pytest.mark.parametrize(("room", "text", "said"), BAD)
def test_everything_that_is_wrong_is_said(room: str, text: str, said: list[str], tmp_path: Path) -> None:
    """Each mistake with its key, a reason, and the nearest or the allowed words."""
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(settings.SettingsError) as refused:
        settings.load(room, MODELS[room], file, {})
    assert [f"{each.key}: {each.reason}" if each.key else each.reason for each in refused.value.mistakes] == said
    assert {each.source for each in refused.value.mistakes} == {str(file)}


@pytest.mark.process
@pytest.mark.parametrize("room", MODELS)
def test_the_program_prints_them_and_exits_2(room: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('log_levl = "x"\nlog_level = "loud"\n')
    command = [sys.executable, "-m", "fairlead_cli.main", room, "run", "--config", str(file)]
    variables = {**os.environ, f"FAIRLEAD_{room.upper()}_SECURTY": "insecure"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and all(line.startswith(f"fairlead {room}: ") for line in lines), done.stderr
    variable = f"FAIRLEAD_{room.upper()}_SECURTY"
    assert f"fairlead {room}: {variable}: is not a key of these settings; did you mean {variable[:-2]}ITY?" in lines
    assert f"fairlead {room}: {file}: log_levl: unknown key" in lines
    assert f"fairlead {room}: {file}: log_level: must be one of debug, info, warning, error, is 'loud'" in lines
