"""Settings of an ingest job whose table and checkpoint are below one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead_ingest.settings import IngestSettings

AWAY = "http://127.0.0.1:9"


def job_values(folder: Path, url: str, *topics: str, **more: Any) -> dict[str, Any]:
    base = {
        "messaging_url": url,
        "security": "insecure",
        "topics": list(topics),
        "table": str(folder / "rows"),
        "checkpoint": str(folder / "checkpoint"),
    }
    return {**base, **more}


def job_settings(folder: Path, url: str, *topics: str, **more: Any) -> IngestSettings:
    return IngestSettings.model_validate(job_values(folder, url, *topics, **more))


def settings_file(folder: Path, url: str, *topics: str, **more: Any) -> Path:
    """Write the settings to ``ingest.toml`` in ``folder``."""
    values = job_values(folder, url, *topics, **more)
    path = folder / "ingest.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return path
