"""How much is read at once unless settings or options say otherwise; each default is written here and nowhere else."""

from __future__ import annotations

from typing import Final

# Messages of one batch, and their payloads together.
BATCH_ROWS: Final = 500_000
BATCH_BYTES: Final = 512 * 1024 * 1024
# How long a batch should take while live topics wait beside a backlog.
BATCH_SECONDS: Final = 1.0
# Messages of one answer of the service, and their payloads together.
PAGE_ROWS: Final = 10_000
PAGE_BYTES: Final = 8 * 1024 * 1024
# An offset range smaller than this is not worth a task of its own.
SPLIT_BYTES: Final = 8 * 1024 * 1024
# How long one request to a silent service may take before it counts as down.
REQUEST_SECONDS: Final = 30.0
# How long a transaction that is written into a topic lives while no task renews it.
TRANSACTION_SECONDS: Final = 600.0
# How long a query of a user's own waits in the service while there is nothing to read.
WAIT_MS: Final = 1000
