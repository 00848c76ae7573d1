"""Samples as Prometheus text."""

from __future__ import annotations

from fairlead_edge import metrics
from fairlead_edge.metrics import Family


def test_samples_with_and_without_labels() -> None:
    text = metrics.render(
        [
            metrics.single("a_total", "counter", "as", 12_345_678_901),
            Family(name="b", kind="gauge", help="bs", labels=("x", "y"), samples={("2", "q"): 0.5, ("1", "p"): 3}),
        ]
    )
    assert text.splitlines() == [
        "# HELP a_total as",
        "# TYPE a_total counter",
        "a_total 12345678901",
        "# HELP b bs",
        "# TYPE b gauge",
        'b{x="1",y="p"} 3',
        'b{x="2",y="q"} 0.5',
    ]
    assert text.endswith("\n")


def test_values_of_labels_are_escaped() -> None:
    text = metrics.render([Family(name="n", kind="gauge", help="h", labels=("l",), samples={('a"b\\c\nd',): 1})])
    assert r'n{l="a\"b\\c\nd"} 1' in text
