"""Which installed distributions extras bring, and which of their files belong into an image."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

KUBERNETES_BACKEND = ("pyspark/jars/kubernetes-*", "pyspark/jars/spark-kubernetes*")
"""Jars that the image for drivers and executors has beside those of `ingest`."""
LEFT_OUT = (
    # Headers and sources for people who compile against a package.
    "*/include/*", "*.pyx", "*.pxd", "*.h", "*.hpp", "*.a", "*.c", "*.cpp",
    # Tests of packages.
    "*/tests/*", "*/test/*",
    # Made anew, for this layer's paths.
    "*.pyc",
    # apsw: programs of SQLite's own and extensions that nothing of ours loads; multidict: a module for its tests.
    "apsw/sqlite_extra_binaries/*", "multidict/_testcapi.*",
    # kubernetes: its second, asynchronous client (65 MB); ours is asynchronous already.
    "kubernetes/aio/*",
    # pyspark: examples, R, a second copy of its own Python code; jars of cluster managers, Hive, Connect, machine
    # learning and the RocksDB state store. A local[*] job that reads topics and writes Delta tables loads none of it.
    "pyspark/examples/*", "pyspark/R/*", "pyspark/data/*", "pyspark/licenses/*", "pyspark/python/lib/pyspark.zip",
    "pyspark/jars/rocksdbjni-*", *KUBERNETES_BACKEND,
    "pyspark/jars/spark-connect_*", "pyspark/jars/spark-mllib_*", "pyspark/jars/breeze_*", "pyspark/jars/spire*",
    "pyspark/jars/connect-repl/*", "pyspark/jars/cats-kernel*", "pyspark/jars/algebra_*",
    "pyspark/jars/datanucleus-*", "pyspark/jars/derby-*",
    # pyarrow: Flight, another way to ship tables, and its own client for S3 (Delta brings another).
    "pyarrow/libarrow_s3*", "pyarrow/_s3fs*",
    "pyarrow/libarrow_flight*", "pyarrow/libarrow_python_flight*", "pyarrow/_flight*", "pyarrow/_pyarrow_cpp_tests*",
)  # fmt: skip
"""Path patterns (fnmatch, below site-packages) that no image holds."""


def requirements(found: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a distribution needs on this interpreter with these extras."""
    for line in found.requires or []:
        wanted = Requirement(line)
        markers = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if wanted.marker is None or any(wanted.marker.evaluate(environment) for environment in markers):
            yield wanted


def closure(name: str, *extras: str) -> list[Distribution]:
    """Every distribution that `name[extra, …]` brings, without itself, sorted by name.

    Raises PackageNotFoundError for one that is not installed: then `make dev` has not run with the current lock.
    """
    seen: dict[tuple[str, frozenset[str]], Distribution] = {}
    waiting = [(name, frozenset(extras))]
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        try:
            seen[key] = distribution(key[0])
        except PackageNotFoundError:
            raise PackageNotFoundError(f"{key[0]} is not installed; run make dev and try again") from None
        waiting += [
            (canonicalize_name(wanted.name), frozenset(wanted.extras)) for wanted in requirements(seen[key], key[1])
        ]
    return [found for (each, _), found in sorted(seen.items(), key=lambda item: item[0][0]) if each != name]


def belongs(path: str) -> bool:
    """True when a file below site-packages goes into an image."""
    return not any(fnmatchcase(path, pattern) for pattern in LEFT_OUT)
