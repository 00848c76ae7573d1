"""The goals: one fixed name for each figure that Fairlead promises, whether it was measured or not.

A `ratio` goal compares with a baseline taken in the same run; an absolute one is for a machine with two cores.
"""

from __future__ import annotations

from collections.abc import Mapping

ROOMS = ("downstream", "upstream", "messaging", "ingest")

GOALS: Mapping[str, Mapping[str, str]] = {
    "downstream": {
        "down.rtt100": "≥ 500 objects/s to one node at 100 ms round trip, ≥ 20 x window 1",
        "down.rtt300": "≥ 200 objects/s to one node at 300 ms round trip",
        "down.first_sync_500": "≤ 2 s for the first sync of 500 objects at 100 ms",
        "down.hub_core": "≥ 5,000 acked objects/s per hub core over 200+ nodes",
        "down.cpu": "≤ 1.1 ms hub CPU per first delivery, ≤ 0.55 ms per update",
        "down.cost": "≤ 2 x the CPU of fire-and-forget",
        "down.latency": "p99 ≤ round trip + 150 ms, API to durable at the edge, 200 changes/s and fan-out to 200 nodes",
        "down.api_writes": "≤ 2 writes for a first delivery, ≤ 1 for an update, ≤ 0.05 in bursts, no reads",
        "down.idle_memory": "≤ 32 KiB an idle node, ≤ 64 KiB with mTLS, 2,000 nodes",
        "down.idle_cpu": "≤ 0.3 s/min hub CPU at rest, 100 nodes x 10 objects",
        "down.idle_link": "≤ 1 MB/day on an idle link",
        "down.storm": "≤ 12 s, 0 re-sent, ≤ 1 KiB a node: 2,000 nodes (mTLS) return after a hub kill -9",
        "down.rotation": "≤ 12 s, none lost: 2,000 nodes (mTLS) return at once with certificates of a new authority",
        "down.revoked": "≤ 2 s from the order to the end of a node's session, 2,000 nodes connected",
        "down.poison": "others' p99 ≤ 1.2 x beside a node that never acks or an object always refused",
        "down.away": "memory and CPU flat with 1,000 nodes away",
        "down.bytes": "≤ 1,300 bytes for a one-annotation change of a 2.5 KB pod",
    },
    "upstream": {
        "up.accept": "≥ 10,000/s durable accept over HTTP batches of 1 KiB, p99 ≤ 20 ms",
        "up.through": "≥ 60 % of a raw WebSocket echo, ≥ 20 x stop-and-wait",
        "up.recovery": "≤ 1 s drain delay after outages of 0, 15, 60, 120 s",
        "up.inversion": "first priority-0 message before any other of 100,000, < 1 s after a 120 s outage",
        "up.expired_run": "< 1 s for a live message behind 100,000 expired ones",
        "up.backlog": "flat memory with a million waiting; start after kill -9 ≤ 2 s",
        "up.routes": "≥ 100,000 evaluations/s, 20 routes with body conditions",
        "up.queues": "≥ 0.9 throughput with 11 priorities ÷ with 1",
        "up.wear": "≤ 3 bytes written per accepted byte",
        "up.rss": "≤ 60 MB idle, ≤ 100 MB with a million messages waiting",
        "up.readers": "≤ 60 MB more with 60 local clients that do not read their lists of 16 MB",
    },
    "messaging": {
        "msg.single": "≥ 10,000/s durable single publishes of 1 KiB, 64 concurrent, p99 ≤ 50 ms",
        "msg.batch": "≥ 60,000 messages/s in batches of 100",
        "msg.nats": "≥ 1 x NATS JetStream with sync-always",
        "msg.poll": "≥ 300,000 messages/s as Arrow, ≥ 50,000 as JSON, hot and cold",
        "msg.wake": "p99 ≤ 20 ms from publish to a long-polling reader",
        "msg.expired": "as on an empty topic ± 20 % after 10 million expired messages",
        "msg.readers": "≤ 0.3 x server CPU per message read, 100 readers against 1",
    },
    "ingest": {
        "in.source": "≤ 1.15 x the CPU per message of the same pipeline from Parquet files",
        "in.sink": "≥ 0.9 of Spark's Parquet sink, rate in the batch",
        "in.pipeline": "≥ 0.6 of a pyarrow loop on one thread; ≥ 0.8 with decoding in the source",
        "in.cores": "≥ 1.5 with two cores ÷ one",
        "in.fresh": "p95 ≤ 2 s publish → row at 5,000/s; from the edge at 2,000/s",
        "in.idle": "≤ 1 request/s to messaging when idle",
        "in.executors": "≥ 0.75 of the ideal: four executors ÷ one, each the same part of a core",
        "in.s3": "≥ 0.8 of the rate on the local disk, table and checkpoint in an object store",
        "in.million": "≤ 20 s for one million messages of 1 KiB on two cores",
    },
}
