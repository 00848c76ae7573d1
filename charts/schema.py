"""Writes what the charts' `config` may hold into their values.schema.json, from the programs' own settings.

    .venv/bin/python charts/schema.py            # after a change of settings; a test tells when it is due

So `--set hub.config.lisen=…` fails at `helm install` and not in a Pod that does not start. Nothing is required there:
the charts fill in what their programs need. Only shapes are checked here; the programs judge the values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fairlead_edge.settings import Settings as EdgeSettings
from fairlead_hub.settings import Settings as HubSettings
from fairlead_ingest.settings import Settings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings

CHARTS = Path(__file__).resolve().parent
PLACES: Mapping[str, Mapping[tuple[str, ...], type[msgspec.Struct]]] = {
    "fairlead": {
        ("hub", "config"): HubSettings,
        ("messaging", "config"): MessagingSettings,
        ("ingest", "config"): IngestSettings,
    },
    "fairlead-edge": {("config",): EdgeSettings},
}
"""Chart, and in its values where which program's settings stand."""


def of(model: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a program's settings, in one piece."""
    (reference,), definitions = msgspec.json.schema_components([model], ref_template="{name}")
    whole = _inlined(reference, definitions)
    assert isinstance(whole, dict)
    whole.pop("required", None)
    return whole


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"]], definitions)
    # What keys mean, and their defaults, is on the reference pages.
    kept = {
        key: value
        for key, value in schema.items()
        if key not in ("title", "default", "description") and (key, value) != ("required", [])
    }
    if "properties" in kept:
        kept["properties"] = {name: _inlined(each, definitions) for name, each in kept["properties"].items()}
    return {key: value if key == "properties" else _inlined(value, definitions) for key, value in kept.items()}


def wanted(chart: str) -> str:
    """The chart's values.schema.json as it should be."""
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    for (*above, last), model in PLACES[chart].items():
        at = schema
        for key in above:
            at = at["properties"][key]
        at["properties"][last] = of(model)
    return json.dumps(schema, indent=2) + "\n"


def main() -> None:
    for chart in PLACES:
        (CHARTS / chart / "values.schema.json").write_text(wanted(chart))


if __name__ == "__main__":
    main()
