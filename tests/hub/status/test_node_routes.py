"""A row of EdgeNode ``status.routes``: what one node makes of one EdgeRoutes object."""

import json

from fairlead_hub.cluster import sync_rule
from fairlead_hub.status import node_routes
from fairlead_hub.status.node_routes import ACCEPTED, REFUSED, RouteOutcome
from fairlead_wire import message


def routes(name="main", generation=1, table=("a", "b")):
    metadata = {"name": name, "uid": "u", "generation": generation}
    return sync_rule.routes({"metadata": metadata, "spec": {"routes": dict.fromkeys(table, "x")}})


def error(route="b", text="unknown function", column=5):
    return message.RouteError(route=route, message=text, line=1, column=column, end_column=column + 4)


def said(*errors, accepted=("a",), warnings=()):
    return message.RoutesStatus(
        uid="u", resource_version="7", accepted=list(accepted), errors=list(errors), warnings=list(warnings)
    )


def test_a_row_names_what_runs_and_what_does_not() -> None:
    """With the position of each error."""
    row = node_routes.row_of(routes(), said(error()), REFUSED)
    assert (row["name"], row["state"], row["observedGeneration"], row["resourceVersion"]) == ("main", "Refused", 1, "7")
    assert row["acceptedRoutes"] == ["a"], "the good one runs"
    mistake = {"route": "b", "message": "unknown function", "line": 1, "column": 5, "endColumn": 9}
    assert row["errors"] == [mistake] and "warnings" not in row


def test_of_a_node_that_lags_the_rest_is_of_an_older_version() -> None:
    """So no generation stands there: what was judged is not this one."""
    row = node_routes.row_of(routes(generation=2), said(error()), RouteOutcome("Lagging", "on its way"))
    assert (row["state"], row["message"]) == ("Lagging", "on its way") and "observedGeneration" not in row
    assert node_routes.standing({"routes": [row]})["main"][1] is None


def test_a_node_that_has_said_nothing_yet_keeps_its_row() -> None:
    """Of an object made anew under the same name it has none."""
    before = node_routes.row_of(routes(), said(error()), REFUSED)
    just_back = RouteOutcome("Lagging", "the node has just returned")
    row = node_routes.lagging_row(routes(), before, just_back)
    assert (row["state"], row["errors"]) == ("Lagging", before["errors"])
    assert node_routes.standing({"routes": [row]})["main"] == ("u", 1, REFUSED), "what it judged holds still"
    assert "errors" not in node_routes.lagging_row(routes(), {**before, "uid": "older"}, just_back)


def test_one_node_cannot_fill_its_row() -> None:
    """It names the routes there are, in a few words; what else it says is left out."""
    errors = [error(route="z" * 9000, text="m" * 9000)] * 99
    names = ["a", *(f"made-up-{n}" for n in range(9000))]
    row = node_routes.row_of(routes(), said(*errors, accepted=names, warnings=errors), REFUSED)
    assert row["acceptedRoutes"] == ["a"]
    assert len(row["errors"]) == len(row["warnings"]) == node_routes.ERRORS_MAX


def test_all_rows_of_a_node_fit_into_an_object() -> None:
    """However many objects select it, and whatever it says of them; each keeps its first error."""
    table = [f"{'r' * 200}-{n}" for n in range(300)]
    one = said(*[error(route="z" * 253, text="ü" * 500)] * 99, accepted=table)
    rows = [node_routes.row_of(routes(f"o-{n:03}", table=table), one, REFUSED) for n in range(100)]
    found = node_routes.bounded(rows)
    assert len(found) == node_routes.ROWS_MAX and all(row["errors"] for row in found)
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 1024 * 1024


def test_what_was_edited_is_passed_over() -> None:
    """A status is read again, and may have been written by hand."""
    assert node_routes.rows_in({"routes": 3}) == node_routes.rows_in({}) == {}
    assert list(node_routes.rows_in({"routes": [3, {}, {"name": 4}, {"name": "a", "errors": 7}]})) == ["a"]
    assert node_routes.standing({"routes": [{"name": "a"}]})["a"] == (None, None, ACCEPTED)
