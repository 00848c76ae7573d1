"""Writes what the charts' `config` may hold into their values.schema.json, from the programs' own settings.

    .venv/bin/python charts/schema.py            # after a change of settings; a test fails while it is due

So `--set hub.config.lisen=…` fails at `helm install` and not in a Pod that does not start, and so does a number out of
its range. Nothing is required there: the charts fill in what their programs need. What several keys say together is
judged by the programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.validation.reader import STRUCTS

CHARTS = Path(__file__).resolve().parent
PLACES: Mapping[str, Mapping[tuple[str, ...], Any]] = {
    "fairlead": {
        ("hub", "config"): HubSettings,
        ("messaging", "config"): MessagingSettings,
        ("ingest", "config"): IngestSettings,
    },
    "fairlead-edge": {("config",): EdgeSettings},
}
"""Chart, and in its values where which program's settings stand."""
DROPPED = ("title", "default", "description")
"""What keys mean, and their defaults, is on the reference pages."""


def of(model: Any) -> dict[str, Any]:
    """The schema of a program's settings, in one piece."""
    if STRUCTS.is_model(model):
        (whole,), definitions = msgspec.json.schema_components([model], ref_template="{name}")
    else:
        whole = model.model_json_schema(by_alias=True, ref_template="{model}")
        definitions = whole.pop("$defs", {})
    found = _inlined(whole, definitions)
    assert isinstance(found, dict)
    found.pop("required", None)
    return found


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"]], definitions)
    kept = {key: value for key, value in schema.items() if key not in DROPPED and (key, value) != ("required", [])}
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
