"""Records which source and builder made which files: an in-toto statement with SLSA's predicate, and SHA256SUMS."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from release.source import UNKNOWN_COMMIT, Source

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://fairlead.dev/build/make-release/v1"
DESK = "https://fairlead.dev/builder/desk"
"""The builder of a `make release` on any machine; as its name says, it guarantees nothing."""
LOCK = Path("requirements/dev.lock")
BLOCK = 1 << 20


def digest(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def statement(source: Source, files: Iterable[Path], environ: Mapping[str, str] = os.environ) -> bytes:
    """The statement about these files; without times, so that equal builds have equal statements."""
    git: dict[str, Any] = {"uri": _repository(environ), "name": "source"}
    if source.commit != UNKNOWN_COMMIT:
        git["digest"] = {"gitCommit": source.commit}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"version": source.version, "ref": environ.get("GITHUB_REF", "")},
            "internalParameters": {
                "sourceDateEpoch": source.epoch,
                "sourceHasUncommittedChanges": source.changed,
                "python": platform.python_version(),
                "machine": platform.machine(),
            },
            "resolvedDependencies": [
                git,
                {"name": str(LOCK), "uri": f"file:{LOCK}", "digest": {"sha256": digest(source.root / LOCK)}},
            ],
        },
        "runDetails": {"builder": {"id": _builder(environ)}},
    }
    body = {
        "_type": STATEMENT,
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in sorted(files)],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }
    return json.dumps(body, indent=1, sort_keys=True).encode() + b"\n"


def checksums(files: Iterable[Path]) -> str:
    """The checksums in the format of `sha256sum --check`."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name))


def _repository(environ: Mapping[str, str]) -> str:
    server, name = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    return f"git+{server}/{name}" if server and name else "git+file:."


def _builder(environ: Mapping[str, str]) -> str:
    server, workflow = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_WORKFLOW_REF", "")
    return f"{server}/{workflow}" if server and workflow else DESK
