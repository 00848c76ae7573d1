"""A dose of simulated worlds; ``make sim SEEDS=1000`` plays more."""

import os
import random

import pytest
from tests.sim.fence_world import FenceWorld
from tests.sim.join_world import JoinWorld
from tests.sim.laws import LawBroken
from tests.sim.planted import MISTAKES
from tests.sim.push_world import PushWorld
from tests.sim.up_world import UpWorld
from tests.sim.world import World
from tests.sim.worlds import WORLDS

from fairlead_edge.link_state import StaleHub
from fairlead_edge.outbox.plan.gate import Rate
from fairlead_edge.outbox.plan.windows import Hours
from fairlead_hub import leadership
from fairlead_messaging.server import producers
from fairlead_messaging.server.subscriptions import push, subscription

DOSE = 60
KEPT = (179, 5179, 5405, 900_111, 900_467, 994, 2461, 3053, 7110, 9637, 549_799)
"""Worlds that once broke a law.  179: an answer made the deadline of what was sent after it earlier (law 4).
2461: here the law was wrong: a restored API server brought a node back whose approvals the world still counted (law 8).
994, 7110: a retry that came due during a pause, or just after it, was due again right after its turn (law 6).
3053: a removal whose document was not known to stand was forgotten with its Node (law 3).
9637: what waited to be written while its Node was deleted was written afterwards (law 3).
5179, 900,467: an ObjectSync of an away node said Deleting or Behind of what is kept because it is paused (law 11).
5405, 900,111: here the law was wrong: a guard that tripped again no longer said what had been approved before (law 8).
549,799: a hub forgot that the one before it had never seen a form of a rule that cannot be read any more (law 5)."""
PLANTED = (3169, *KEPT, *range(150))
"""In these each planted mistake is noticed, most of them in the first few; deadlines made earlier in the first one."""
# `make fresh` plays other worlds each time; a gate plays the same worlds for the same code.
FIRST = random.randrange(1_000_000) if os.environ.get("FAIRLEAD_EXAMPLES") == "fresh" else 0


@pytest.mark.verify
@pytest.mark.fresh
@pytest.mark.parametrize("kind", sorted(WORLDS))
def test_every_law_holds_in_every_world(kind):
    """Replay a failure with ``make sim SEED=… ONLY=…``; the seed is in the message."""
    for seed in range(FIRST, FIRST + DOSE):
        try:
            WORLDS[kind](seed)
        except Exception as error:
            error.add_note(f"make sim SEED={seed} ONLY={kind}")
            raise


@pytest.mark.parametrize("seed", KEPT)
def test_every_law_holds_where_one_was_broken_once(seed):
    """Of the worlds of the line down."""
    World(seed).run()


def test_the_laws_notice_the_classic_mistake():
    """Acknowledge first and store later, and every world says so: the checkers can fail."""
    broken = 0
    for seed in range(20):
        try:
            World(seed, acks_before_commit=True).run()
        except LawBroken:
            broken += 1
    assert broken == 20


@pytest.mark.slow
def test_the_laws_notice_a_message_forgotten_before_its_ack():
    """The same mistake on the way up: most worlds lose something, and say what."""
    broken = 0
    for seed in range(20):
        try:
            UpWorld(seed, settles_before_ack=True).run()
        except LawBroken:
            broken += 1
    assert broken > 15


@pytest.mark.verify
def test_the_laws_notice_a_hub_that_takes_what_follows_a_batch_it_put_off():
    """Messaging fails for one batch and is back for the next, and the topic shows a stream's messages out of order."""
    broken = 0
    for seed in range(30):
        try:
            UpWorld(seed, takes_what_follows=True).run()
        except LawBroken as error:
            assert "law 5" in str(error)
            broken += 1
    assert broken > 3


@pytest.mark.verify
def test_the_laws_notice_a_hub_that_forgets_which_topics_it_deferred():
    """A topic is over its quota for one batch and not for the next, which left before the edge knew."""
    broken = 0
    for seed in range(30):
        try:
            UpWorld(seed, forgets_what_it_deferred=True).run()
        except LawBroken as error:
            assert "law 5" in str(error)
            broken += 1
    assert broken > 3


@pytest.mark.verify
def test_messages_are_known_once_however_small_the_pages_are(monkeypatch):
    """What a topic knows of its producers is spread over many rows, and nothing is stored twice or held up."""
    monkeypatch.setattr(producers, "PAGE_INTERVALS_MAX", 2)
    for seed in range(100, 130):
        UpWorld(seed).run()


@pytest.mark.verify
def test_the_laws_notice_a_store_that_takes_what_is_on_its_way():
    """Swept or evicted while its answer was under way: it is in the topic, and counted as gone."""
    broken = 0
    for seed in range(30):
        try:
            UpWorld(seed, max_bytes=60_000, disasters=frozenset(), forgets_what_is_out=True).run()
        except LawBroken as error:
            assert "law 7" in str(error)
            broken += 1
    assert broken > 5


@pytest.mark.verify
@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        ("law 8", lambda patch: patch.setattr(Hours, "closed_until", lambda self, priority, instant: None)),
        ("law 9", lambda patch: None),
        ("law 10", lambda patch: patch.setattr(Rate, "due", lambda self, now: now)),
    ],
)
def test_the_laws_notice_a_plan_that_is_not_kept(law, mistake, monkeypatch):
    """Hours that are not looked at, a day's count that a kill forgets, a rate that waits for nothing."""
    mistake(monkeypatch)
    for seed in range(60):
        try:
            UpWorld(seed, plans=True, forgets_the_day=law == "law 9").run()
        except LawBroken as error:
            assert str(error).startswith(law), f"seed {seed}: {error}"
            return
    raise AssertionError("60 worlds did not notice it")


@pytest.mark.verify
@pytest.mark.parametrize("plant", MISTAKES, ids=lambda plant: plant.__name__)
def test_the_laws_detect_a_mistake_in_the_cores(plant, monkeypatch):
    """Each is caught within a few worlds, by a law that speaks of it."""
    plant(monkeypatch)
    for seed in PLANTED:
        try:
            World(seed).run()
        except LawBroken as error:
            assert str(error).startswith(MISTAKES[plant]), f"seed {seed}: {error}"
            return
    raise AssertionError(f"{len(PLANTED)} worlds did not notice it")


@pytest.mark.verify
@pytest.mark.parametrize("planted", ["moves_first", "ignores_generation", "cleans_ahead", "forgets_letters"])
def test_the_laws_notice_a_subscription_that_passes_messages_over(planted, monkeypatch):
    """Positions before outcomes, another generation's page, rows removed uncounted, a dead letter taken as written."""
    if planted == "cleans_ahead":
        monkeypatch.setattr(subscription.SubscriptionRecord, "oldest_needed", b"\xff" * 20)
    if planted == "forgets_letters":
        monkeypatch.setattr(push.Push, "_store_letter", _forgets)
    how = {planted: True} if planted in ("moves_first", "ignores_generation") else {}
    broken = 0
    for seed in range(20):
        try:
            PushWorld(seed, **how).run()
        except LawBroken:
            broken += 1
    assert broken > 3


def _forgets(self, item, topic):
    """Writes nothing, and says that it is written."""
    yield push.PushPause(0)
    return ""


@pytest.mark.slow
def test_few_dead_letters_may_wait(monkeypatch):
    """At the limit the subscription waits for its dead letter topic, and goes on when it is back."""
    monkeypatch.setattr(push, "UNDELIVERABLE_MAX", 1)
    for seed in range(20):
        PushWorld(seed).run()


@pytest.mark.slow
def test_a_seed_replays_exactly():
    """The same seed is the same world, to the last frame."""
    worlds = [World(7), World(7)]
    for world in worlds:
        world.run()
    assert worlds[0].now == worlds[1].now
    assert worlds[0].edges["edge-0"].held() == worlds[1].edges["edge-0"].held()
    assert worlds[0].random.random() == worlds[1].random.random()


@pytest.mark.slow
def test_what_the_laws_are_about_happens_in_most_worlds():
    """A law about something that never happens is none."""
    worlds = [World(seed) for seed in range(16)]
    for world in worlds:
        world.run()
    assert sum(world.object_pauses > 0 for world in worlds) > 8
    assert sum(world.fence > 1 for world in worlds) > 6
    assert sum(world.pauses > 0 for world in worlds) > 8
    assert sum(world.guards > 0 for world in worlds) > 2
    assert sum(world.cluster.restores > 0 for world in worlds) > 1


@pytest.mark.slow
def test_two_hubs_that_write_over_each_other_are_noticed():
    """A use that is written whatever version stands there is lost with its certificate: the join world says so."""
    broken = 0
    for seed in range(40):
        try:
            JoinWorld(seed, checks_versions=False).run()
        except LawBroken:
            broken += 1
    assert broken > 0


@pytest.mark.parametrize("seed", [243, 1919])
def test_joins_where_a_law_was_broken_once(seed):
    """Two replacements within one second, the first of which stopped before it revoked anything (law 4)."""
    JoinWorld(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        ("law 1", lambda patch: patch.setattr(leadership, "CLAIMS_NEEDED", 1)),
        (
            "law 1",
            lambda patch: patch.setattr(leadership.FenceClaims, "record", lambda self, node, fence, now, nodes: fence),
        ),
        ("law 3", lambda patch: patch.setattr(StaleHub, "lower", lambda self, now, seconds: None)),
    ],
)
def test_the_laws_notice_fencing_numbers_that_are_believed_or_kept(law, mistake, monkeypatch):
    """One node is enough, or any claim, or a number is never given up."""
    worlds = [FenceWorld(seed) for seed in range(30)]
    mistake(monkeypatch)
    _one_breaks(law, worlds)


@pytest.mark.parametrize(("law", "how"), [("law 2", "names_always"), ("law 3", "forgets_at_restart")])
def test_the_laws_notice_a_hub_that_is_followed_too_soon_or_never(law, how):
    """A hub that was replaced names its number; an agent forgets since when it refuses."""
    _one_breaks(law, [FenceWorld(seed, **{how: True}) for seed in range(60)])


def _one_breaks(law, worlds):
    for world in worlds:
        try:
            world.run()
        except LawBroken as error:
            assert str(error).startswith(law), error
            return
    raise AssertionError(f"{len(worlds)} worlds did not notice it")


@pytest.mark.slow
def test_leases_are_lost_and_nodes_lie_in_most_worlds_of_fencing_numbers():
    """A law about something that never happens is none."""
    worlds = [FenceWorld(seed) for seed in range(16)]
    for world in worlds:
        world.run()
    assert sum(world.lost > 1 for world in worlds) > 10
    assert sum(world.lies > 5 for world in worlds) > 3
    assert sum(bool(world.misled) for world in worlds) > 2
