"""The page of traces: complete, escaped, bounded."""

from tests.hub.console.test_pages import HOSTILE, read
from tests.hub.console.test_traces import BATCH, CHANGE, span
from tests.support.spans import place

from fairlead_hub.console import trace_pages
from fairlead_hub.console.html import join
from fairlead_hub.console.traces import KeptTraces

LINK = 'https://traces.example/t/{trace_id}?q="><b>'


def test_each_trace_is_a_table_with_its_id():
    """Ids are plain text without a link; a trace that is linked with it can be looked for."""
    page = join(*trace_pages.page(KeptTraces((*CHANGE, *BATCH)), ""))
    text = "".join(read(page).text)
    assert "2 of 2 traces" in text and "observe" in text and "100.0" in text and 'class="depth-1"' in page
    assert place(1).trace_id in text and "http" not in page
    assert f'href="/console/traces?q={place(3).trace_id}"' in page
    assert page.index("observe") < page.index("upstream batch")


def test_with_a_link_the_id_leads_to_the_readers_backend():
    """Escaped, and the page there learns nothing of this one."""
    page = trace_pages.page(KeptTraces(tuple(BATCH), LINK), "")[1]
    address = f"https://traces.example/t/{place(2).trace_id}?q=&quot;&gt;&lt;b&gt;"
    assert f'<a href="{address}" rel="noopener noreferrer">' in page


def test_hostile_names_stay_text():
    """Whatever a node or an object is called, and whatever is searched for."""
    line = span(HOSTILE, 1, node=HOSTILE, subject=HOSTILE)._replace(failure=HOSTILE, linked=(HOSTILE,))
    kept = KeptTraces((line,), LINK)
    for page in (join(*trace_pages.page(kept, HOSTILE)), trace_pages.of_node(kept, HOSTILE)):
        found = read(page)
        assert not {"script", "img", "b"} & set(found.tags) and "onerror" not in found.attributes
        assert "\u202e" not in page and "alert(1)" in page


def test_what_is_not_there_is_said():
    nothing = "".join(read(join(*trace_pages.page(KeptTraces(()), ""))).text)
    assert "No span was recorded since this hub started." in nothing
    assert "No trace that is kept here has this." in join(*trace_pages.page(KeptTraces(tuple(CHANGE)), "x y z"))
    assert "No span about this node" in trace_pages.of_node(KeptTraces(tuple(CHANGE)), "edge-9")


def test_at_most_so_many_are_on_one_page():
    many = tuple(span("observe", number, trace=number) for number in range(1, 257))
    page = join(*trace_pages.page(KeptTraces(many), ""))
    assert "50 of 256 traces" in page and read(page).tags.count("table") == 50
    linked = (span("a", 1, linked=tuple(place(number).trace_id for number in range(2, 9))),)
    assert "and 3 more" in join(*trace_pages.page(KeptTraces(linked), ""))


def test_a_nodes_part_names_its_latest_spans():
    page = trace_pages.of_node(KeptTraces((*CHANGE, *BATCH)), "edge-1")
    assert "deliver" in page and "upstream batch" in page and "observe" not in page
    assert f'href="/console/traces?q={place(1).trace_id}"' in page
