"""What Spark, tables and disks raise gets a code, or is known to have none."""

from __future__ import annotations

import errno

import pytest
from pyspark.errors import PySparkException

from fairlead_ingest import errors
from fairlead_ingest.io.spark.connect import coded


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errors.Wait, errors.DISK_FULL),
        (PySparkException("x FAIRLEAD_TABLE_TAKEN: another job\n"), errors.Stop, errors.TABLE_TAKEN),
        (PySparkException("x FAIRLEAD_UNREACHABLE: down\n"), errors.Wait, errors.UNREACHABLE),
        (PySparkException("ValueError: seven"), errors.Fault, "seven"),
    ],
)
def test_a_failure_says_whether_waiting_helps(raised: Exception, kind: type[Exception], code: str) -> None:
    """By its code; without one the reason is kept whole."""
    with pytest.raises(kind, match=code), coded():
        raise raised


@pytest.mark.parametrize("raised", [ConnectionRefusedError("gone"), KeyError("defect")])
def test_a_jvm_that_is_gone_and_defects_pass_as_they_are(raised: Exception) -> None:
    """The program ends for the first, and a trace helps with the second."""
    with pytest.raises(type(raised)), coded():
        raise raised
