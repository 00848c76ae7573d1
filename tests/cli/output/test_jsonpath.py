"""JSONPath templates as kubectl reads them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.kube.assets import assets

from fairlead_cli.output import jsonpath

DOCUMENT: dict[str, Any] = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"fairlead.dev/node": "edge-1"}}, "status": {"state": "Synced", "n": 1}},
        {"metadata": {"name": "b"}, "status": {"state": "Parked", "n": 5, "ok": True}},
        {"metadata": {"name": "c"}},
    ],
}
TEMPLATES = [
    "{.items[*].metadata.name}",
    "{.items[0].metadata.name}",
    "{.items[-1].metadata.name}",
    "{.items[0:2].metadata.name}",
    "{.kind}: {.items[1].status.n}",
    '{range .items[*]}{.metadata.name}{"\\t"}{.status.state}{"\\n"}{end}',
    '{.items[?(@.status.state=="Parked")].metadata.name}',
    "{.items[?(@.status.n>1)].metadata.name}",
    "{.items[?(@.status.ok)].metadata.name}",
    "{.items[?(@.status.ok==true)].metadata.name}",
    "{.items[0].metadata.labels.fairlead\\.dev/node}",
    "{.items[0].metadata.labels['fairlead\\.dev/node']}",
    "{..name}",
    "{$.items[1].status}",
    "{.items[*].nothing}",
    "{.items[*]['metadata.name', 'kind']}",
    "plain {.kind}",
]

KUBECTLS = [
    "{.contexts[*].name}",
    "{.contexts[0].name} {.contexts[-1].name} {.contexts[0:2].name} {.contexts[:1].name}",
    '{range .contexts[*]}{.name}{"\\t"}{.context.user}{"\\n"}{end}',
    '{.contexts[?(@.context.namespace=="shop")].name}',
    "{.contexts[?(@.context.namespace)].name}",
    '{.contexts[?(@.context.user!="u")].name}',
    "{.current-context}: {.kind}",
    "{.contexts[1].context}",
    "{.contexts[*].nothing}",
    "{.contexts[0]['name', 'context.cluster']}",
    "{..namespace}",
    "{$.contexts[1].context['user']}",
    "{.contexts[*]['name']}",
]


def test_what_templates_take() -> None:
    """Paths, ranges, filters, escapes; what is not there gives nothing."""
    found = [jsonpath.parse(each).applied(DOCUMENT) for each in TEMPLATES[:14]]
    assert found == [
        "a b c",
        "a",
        "c",
        "a b",
        "List: 5",
        "a\tSynced\nb\tParked\nc\t\n",
        "b",
        "b",
        "b",
        "b",
        "edge-1",
        "edge-1",
        "a b c",
        '{"state":"Parked","n":5,"ok":true}',
    ]


@pytest.mark.kube
@pytest.mark.parametrize("template", KUBECTLS)
def test_kubectl_reads_them_alike(template: str, tmp_path: Path) -> None:
    """The real kubectl on a kubeconfig, which it shows without asking a server."""
    file = tmp_path / "kubeconfig"
    contexts = [
        {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
        {"name": "b", "context": {"cluster": "c", "user": "v"}},
        {"name": "d", "context": {"cluster": "e", "user": "u"}},
    ]
    file.write_text(json.dumps({"kind": "Config", "apiVersion": "v1", "contexts": contexts, "current-context": "a"}))

    def view(form: str) -> str:
        command = [str(assets() / "kubectl"), "config", "view", f"--kubeconfig={file}", "-o", form]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert jsonpath.parse(template).applied(json.loads(view("json"))) == view(f"jsonpath={template}")


@pytest.mark.parametrize("text", [".items[0].metadata.name", "items[0].metadata.name"])
def test_braces_may_be_left_out(text: str) -> None:
    assert jsonpath.parse(text).applied(DOCUMENT) == "a"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{.a", "not closed"),
        ("{range .a}", "{range} without {end}"),
        ("{end}", "{end} without {range}"),
        ("{.a[}", "cannot be read from '['"),
        ("{.a[?(@.b==x)]}", "neither a text in quotes nor a number"),
        ("{'a}", "not closed"),
        ("{" * 20_000, "longer than"),
        ("{range .a}" * 40, "more than 16"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    with pytest.raises(jsonpath.TemplateMistake) as mistake:
        jsonpath.parse(text)
    assert words in str(mistake.value)
