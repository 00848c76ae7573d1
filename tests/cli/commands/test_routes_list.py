"""`fairlead routes list`: rows by node; what it prints is in golden/."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner

from fairlead_cli.commands import routes_list
from fairlead_cli.main import build

ERRORS = [{"route": "hot", "message": "unknown", "line": 1, "column": 5}, {"route": "b", "message": "c"}]


def test_rows_by_node() -> None:
    accounts: list[dict[str, Any]] = [
        {"metadata": {"name": "b"}, "status": {"routes": [{"name": "r", "state": "Accepted"}, {"name": "s"}]}},
        {"metadata": {"name": "a"}, "status": {"routes": [{"name": "r", "state": "Refused", "errors": ERRORS}]}},
        {"metadata": {"name": "c"}},
    ]
    found = list(routes_list.by_nodes(accounts, "r"))
    assert [(row["node"], row["routes"], row["state"]) for row in found] == [
        ("a", "r", "Refused"),
        ("b", "r", "Accepted"),
    ]
    assert routes_list._why(found[0]) == "hot: 1:5: unknown (and 1 more)" and routes_list._why(found[1]) == ""


def test_labels_are_those_of_routes() -> None:
    done = CliRunner().invoke(build(), ["routes", "--by-node", "-l", "a=b"])
    assert done.exit_code == 2 and "-l selects EdgeRoutes by label" in done.output
