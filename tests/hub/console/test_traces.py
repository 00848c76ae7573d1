"""Spans grouped by trace: trees, search, and where an id leads; their page is complete, escaped, bounded."""

import pytest
from tests.hub.console.test_pages import HOSTILE, read
from tests.support.spans import place

from fairlead_hub.console import traces
from fairlead_hub.console.html import join
from fairlead_hub.console.traces import KeptTraces, SpanLine, node_traces, traces_page


def span(name, number, *, parent="", trace=1, at=0.0, seconds=0.001, node="", subject="", linked=()):
    trace_id = place(trace).trace_id
    return SpanLine(trace_id, f"{number:016x}", parent, linked, name, node, subject, 1000.0 + at, seconds, "")


CHANGE = [
    span("record", 4, parent="0000000000000001", at=0.3),
    span("deliver", 3, parent="0000000000000001", at=0.1, seconds=0.2, node="edge-2", subject="configmap/shop/prices"),
    span("deliver", 2, parent="0000000000000001", at=0.05, seconds=0.1, node="edge-1"),
    span("observe", 1, at=0.0),
]
BATCH = [span("upstream batch", 9, parent="00000000000000ff", trace=2, node="edge-1", linked=(place(3).trace_id,))]


def test_each_span_stands_below_its_parent():
    """In the order in which they began; one whose parent another program recorded is at the top."""
    change, batch = traces.grouped([*CHANGE, *BATCH], "")
    assert [(depth, line.name, line.node) for depth, line in change.spans] == [
        (0, "observe", ""),
        (1, "deliver", "edge-1"),
        (1, "deliver", "edge-2"),
        (1, "record", ""),
    ]
    assert (change.trace_id, change.at, change.linked) == (place(1).trace_id, 1000.0, ())
    assert change.seconds == pytest.approx(0.301)
    assert [depth for depth, _ in batch.spans] == [0] and batch.linked == (place(3).trace_id,)


def test_a_long_chain_and_a_circle_are_shown_whole():
    """However deep; what cannot be is shown too."""
    chain = [span("a", number, parent=f"{number - 1:016x}", at=number) for number in range(1, 3000)]
    [found] = traces.grouped(chain, "")
    assert [depth for depth, _ in found.spans] == list(range(2999))
    circle = [span("a", 1, parent=f"{2:016x}"), span("b", 2, parent=f"{1:016x}")]
    [found] = traces.grouped(circle, "")
    assert sorted(line.name for _, line in found.spans) == ["a", "b"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", [1, 2]),
        (place(2).trace_id, [2]),
        (place(2).trace_id.upper()[16:], [2]),
        (f"00-{place(1).trace_id}-00f067aa0ba902b7-01", [1]),
        (place(3).trace_id, [2]),
        ("edge-2 PRICES", [1]),
        ("edge-1", [1, 2]),
        ("edge-2 upstream", []),
        ("\x00", []),
    ],
)
def test_a_trace_is_found_by_its_id_and_by_words(search, found):
    """Also by the id of a trace it is linked with; a whole traceparent is its id."""
    shown = traces.grouped([*CHANGE, *BATCH], search)
    assert [each.trace_id for each in shown] == [place(number).trace_id for number in found]


def test_the_latest_spans_of_one_node():
    assert [line.name for line in traces.spans_of_node([*BATCH, *CHANGE], "edge-1", 10)] == [
        "upstream batch",
        "deliver",
    ]
    assert len(traces.spans_of_node([*BATCH, *CHANGE], "edge-1", 1)) == 1


def test_the_id_is_put_into_the_readers_address():
    """Other braces are the address's own."""
    assert traces.address("https://a/{trace_id}?x={y}", "4bf9") == "https://a/4bf9?x={y}"
    assert traces.address("", "4bf9") == ""


LINK = 'https://traces.example/t/{trace_id}?q="><b>'


def test_each_trace_is_a_table_with_its_id():
    """Ids are plain text without a link; a trace that is linked with it can be looked for."""
    page = join(*traces_page(KeptTraces((*CHANGE, *BATCH)), ""))
    text = "".join(read(page).text)
    assert "2 of 2 traces" in text and "observe" in text and "100.0" in text and 'class="depth-1"' in page
    assert place(1).trace_id in text and "http" not in page
    assert f'href="/console/traces?q={place(3).trace_id}"' in page
    assert page.index("observe") < page.index("upstream batch")


def test_with_a_link_the_id_leads_to_the_readers_backend():
    """Escaped, and the page there learns nothing of this one."""
    page = traces_page(KeptTraces(tuple(BATCH), LINK), "")[1]
    address = f"https://traces.example/t/{place(2).trace_id}?q=&quot;&gt;&lt;b&gt;"
    assert f'<a href="{address}" rel="noopener noreferrer">' in page


def test_hostile_names_stay_text():
    """Whatever a node or an object is called, and whatever is searched for."""
    line = span(HOSTILE, 1, node=HOSTILE, subject=HOSTILE)._replace(failure=HOSTILE, linked=(HOSTILE,))
    kept = KeptTraces((line,), LINK)
    for page in (join(*traces_page(kept, HOSTILE)), node_traces(kept, HOSTILE)):
        found = read(page)
        assert not {"script", "img", "b"} & set(found.tags) and "onerror" not in found.attributes
        assert "\u202e" not in page and "alert(1)" in page


def test_what_is_not_there_is_said():
    nothing = "".join(read(join(*traces_page(KeptTraces(()), ""))).text)
    assert "No span was recorded since this hub started." in nothing
    assert "No trace that is kept here has this." in join(*traces_page(KeptTraces(tuple(CHANGE)), "x y z"))
    assert "No span about this node" in node_traces(KeptTraces(tuple(CHANGE)), "edge-9")


def test_at_most_so_many_are_on_one_page():
    many = tuple(span("observe", number, trace=number) for number in range(1, 257))
    page = join(*traces_page(KeptTraces(many), ""))
    assert "50 of 256 traces" in page and read(page).tags.count("table") == 50
    linked = (span("a", 1, linked=tuple(place(number).trace_id for number in range(2, 9))),)
    assert "and 3 more" in join(*traces_page(KeptTraces(linked), ""))


def test_a_nodes_part_names_its_latest_spans():
    page = node_traces(KeptTraces((*CHANGE, *BATCH)), "edge-1")
    assert "deliver" in page and "upstream batch" in page and "observe" not in page
    assert f'href="/console/traces?q={place(1).trace_id}"' in page
