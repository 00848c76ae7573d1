"""Are our kinds known to the API server, in the version and with the fields of this program?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

APPLY: Final = "kubectl apply --server-side -f crds/  (helm upgrade never touches definitions)"
MINOR_MIN: Final = 30
"""Of Kubernetes 1: from here on fields of our kinds can be selected."""


def judge_server(version: Mapping[str, Any]) -> Finding:
    """``/version`` as it was answered."""
    shown = str(version.get("gitVersion", "?"))
    digits = "".join(each for each in str(version.get("minor", "")) if each.isdigit())
    if str(version.get("major")) == "1" and digits and int(digits) < MINOR_MIN:
        text = f"the API server is {shown}; selectable fields of our kinds need 1.{MINOR_MIN}"
        return problem("api", text, f"upgrade Kubernetes to 1.{MINOR_MIN} or newer")
    return ok("api", f"the API server is {shown}")


def judge(wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """``wanted`` are the definitions this program was made with, ``found`` those of the API server."""
    present = {each["metadata"]["name"]: each for each in found}
    for each in wanted:
        name = each["metadata"]["name"]
        check = f"definition.{each['spec']['names']['plural']}"
        if name not in present:
            yield problem(check, f"{name} is not installed", APPLY)
        else:
            yield _compared(check, name, each, present[name])


def _compared(check: str, name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Finding:
    [ours] = wanted["spec"]["versions"]
    served = {each["name"]: each for each in found["spec"].get("versions") or () if each.get("served")}
    if ours["name"] not in served:
        text = f"{name} serves {', '.join(served) or 'no version'}, and this program speaks {ours['name']}"
        return problem(check, text, APPLY)
    conditions = (found.get("status") or {}).get("conditions") or []
    refused = [each for each in conditions if each.get("type") in ("Established", "NamesAccepted")]
    bad = next((each for each in refused if each.get("status") != "True"), None)
    if bad is not None:
        text = f"{name} is not {bad['type']}: {bad.get('message') or bad.get('reason') or 'it is new'}"
        return problem(check, text, "wait a moment; a name that another definition has must be given up there")
    theirs = served[ours["name"]]
    if fields(theirs) != fields(ours):
        missing = sorted(fields(ours) - fields(theirs))
        more = sorted(fields(theirs) - fields(ours))
        text = f"{name} is of another release: " + "; ".join(
            [*([f"it lacks {missing[0]}"] if missing else []), *([f"it has {more[0]} beside ours"] if more else [])]
        )
        # A field that is missing is dropped by the API server without a word; one more does no harm here.
        return (problem if missing else warning)(check, text, APPLY if missing else "use programs of one release")
    return ok(check, f"{name} is installed, {ours['name']}, as this program has it")


def fields(version: Mapping[str, Any]) -> frozenset[str]:
    """The paths of all fields of one version's schema."""
    return frozenset(_paths(((version.get("schema") or {}).get("openAPIV3Schema")) or {}, ""))


def _paths(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield f"{at}.{name}"
        yield from _paths(below, f"{at}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _paths(schema[key], f"{at}[]")
