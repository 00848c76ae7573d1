"""One survey for all pages, in slices, and none while there is no page."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.hubs.console import Served, fleet, serving, until
from tests.support.hubs.hub_core import Core

from fairlead_hub.console import snapshot
from fairlead_hub.console.frames import PageFrame
from fairlead_hub.io.console import live_source


async def test_many_pages_at_once_are_one_survey() -> None:
    """And those that follow within a second see the same."""
    async with serving(fleet(40)) as served:
        source = served.console.source
        views = await asyncio.gather(*(source.view() for _ in range(50)))
        await source.nodes()
        assert source.surveys == 1 and len({id(view.snapshot) for view in views}) == 1
        served.core.now += live_source.EVERY_SECONDS + 0.1
        await source.view()
        assert source.surveys == 2


async def test_without_a_page_the_hub_is_not_surveyed() -> None:
    """The console costs nothing until it is opened, and nothing after."""
    async with serving(fleet(5)) as served:
        served.happened()
        assert served.console.source.surveys == 0
        heard: list[PageFrame] = []
        served.console.source.listen("page", heard.append)
        await until(lambda: served.console.source.surveys == 1, "the first survey")
        served.console.source.leave("page")
        served.core.now += 100.0
        assert [task for task in asyncio.all_tasks() if task.get_name() == "console" and not task.cancelling()] == []


async def test_a_costly_survey_waits_longer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take a share of the time: what took a second of CPU comes every twenty."""
    monkeypatch.setattr(live_source, "thread_time", iter(range(1000)).__next__)
    async with serving(fleet(5)) as served:
        await served.console.source.view()
        served.core.now += 19.0
        await served.console.source.view()
        assert served.console.source.surveys == 1
        served.core.now += 2.0
        await served.console.source.view()
        assert served.console.source.surveys == 2


@pytest.mark.slow
async def test_the_hub_has_its_turn_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others run while a survey is on its way."""
    monkeypatch.setattr(live_source, "SLICE_SECONDS", 0.0)
    async with serving(fleet(200)) as served:
        turns = 0
        view = asyncio.create_task(served.console.source.view())
        while not view.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 10


async def change(served: Served, node: str) -> None:
    served.core.node(node)
    served.core.now += 2.0
    await served.console.source.view()


async def test_what_changes_after_a_page_was_made_is_in_the_frames_it_asks_for() -> None:
    """Also when its stream opens later, and another page was made in between."""
    core = Core("edge-1")
    async with serving(core) as served:
        first = await served.console.source.view()
        await change(served, "edge-2")
        frames = served.console.source.ring.after(first.last_id)
        assert frames is not None
        assert {"nodes", "totals"} <= {frame.name for frame in frames}
        assert any(b"edge-2" in frame.encoded for frame in frames)


@pytest.mark.slow
async def test_a_survey_that_fails_ends_no_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open pages would say "Live" and never change again."""
    survey, failed = snapshot.survey, 0

    def fails(*_: object) -> object:
        nonlocal failed
        failed += 1
        raise RuntimeError("a defect")

    loop = asyncio.get_running_loop()
    async with serving(Core("edge-1"), clock=loop.time) as served:
        heard: list[PageFrame] = []
        monkeypatch.setattr(snapshot, "survey", fails)
        served.console.source.listen("page", heard.append)
        await until(lambda: failed > 0, "a survey that fails")
        monkeypatch.setattr(snapshot, "survey", survey)
        await until(lambda: bool(heard), "frames of a later survey")


async def test_events_come_together_and_bounded() -> None:
    """A burst is one frame, with the newest of it."""
    core = Core(*(f"edge-{at}" for at in range(120)))
    async with serving(core) as served:
        heard: list[PageFrame] = []
        served.console.source.listen("page", heard.append)
        for at in range(120):
            core.connect(f"edge-{at}")
        served.happened()
        await until(lambda: any(frame.name == "events" for frame in heard), "events")
        [frame] = [frame for frame in heard if frame.name == "events"]
        assert frame.encoded.count(b"node.connected") == live_source.EVENTS_AT_ONCE
        assert b"edge-119" in frame.encoded
