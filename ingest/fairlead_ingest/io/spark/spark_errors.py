"""Which errors of Spark, tables and disks say something about a query, and the codes they get here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from fairlead_ingest import errors
from fairlead_ingest.io.spark import spark_away

# What work on tables and queries may raise that says something about them; a JVM that is gone is another matter.
ABOUT_QUERIES = (OSError, DeltaError, PySparkException, Py4JJavaError)


@contextmanager
def coded() -> Iterator[None]:
    """Turns what Spark, tables and disks raise into ``Stop``, into ``Wait`` where waiting may help, or into ``Fault``
    where the reason is not known. A JVM that is gone passes as it is; Spark that is gone is ``SparkAway``."""
    try:
        yield
    except ConnectionError:
        raise
    except ABOUT_QUERIES as error:
        if (away := spark_away.of(error)) is not None:
            raise away from error
        code, sentence = errors.explain(str(error) or type(error).__name__)
        if code is None:
            raise errors.Fault(sentence) from error
        raise (errors.Wait if code in errors.TEMPORARY else errors.Stop)(code, sentence) from error
