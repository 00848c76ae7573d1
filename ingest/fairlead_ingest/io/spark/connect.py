"""A session on a Spark Connect server: the queries run there, and this program only says what they are.

Either outlives the other. When the program is killed its query goes on there, until a new program takes it over by its
checkpoint; when the server is killed the program waits for it, and starts its queries again. The server's Python has
this package, and reaches table, checkpoint and messaging as this program does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.cluster.connect_address import address
from fairlead_ingest.io.spark import spark_away
from fairlead_wire import distribution

# One request to a server that is gone is given up after about two seconds; what waits longer is this program, which
# says so. (Spark's own client would be silent for ten minutes.)
RETRIES: Final = 4
RETRY_MS_MAX: Final = 1000


def start(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """A new session there. Raises ``SparkAway``, and ``Stop`` for what no waiting heals."""
    spark_away.require_answer("Spark Connect server", [address(remote)])
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session: SparkSession = SparkSession.builder.remote(remote).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=RETRY_MS_MAX)])
        for key, value in conf.items():
            _set(session, key, value)
    except ImportError as error:
        remedy = f"install Spark Connect's client with: {distribution.install('connect')}"
        raise errors.Stop(errors.BAD_OPTION, f"spark.remote: {spark_away.brief(error)}; {remedy}") from error
    except PySparkException as error:
        raise spark_away.of(error) or errors.Stop(
            errors.BAD_OPTION, f"spark.remote: {spark_away.brief(error)}"
        ) from error
    return session


def _set(session: SparkSession, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except PySparkException as error:
        if spark_away.of(error) is not None:
            raise
        remedy = "a running Spark Connect server cannot be given this any more, set it where the server is started"
        raise errors.Stop(errors.BAD_OPTION, f"spark.conf.{key}: {remedy} ({spark_away.brief(error)})") from error


def is_remote(session: SparkSession) -> bool:
    """The session's queries run on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")
