"""Writes the custom resources' definitions, `crds/*.yaml` and the chart's copies, from the hub's models.

.venv/bin/python operator/definitions.py     # after a change of the models; a test tells when it is due
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from fairlead_hub.cluster.custom_resources import definitions

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "crds", ROOT / "charts" / "fairlead" / "crds")
GENERATED = "# Made from operator/fairlead_hub/cluster/custom_resources by operator/definitions.py."


def wanted() -> Iterator[tuple[str, str]]:
    """Each file's name, and what should stand in it."""
    for each in definitions.ALL:
        text = yaml.safe_dump(each.document(), sort_keys=False, width=120, allow_unicode=True)
        yield (
            f"{each.singular}.yaml" if each.kind != "EdgeRoutes" else "edgeroutes.yaml",
            f"# {each.comment}\n{GENERATED}\n{text}",
        )


def main() -> None:
    for name, text in wanted():
        for folder in FOLDERS:
            (folder / name).write_text(text)


if __name__ == "__main__":
    main()
