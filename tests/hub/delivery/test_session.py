"""One node's session: what is sent when, what an answer means, and what becomes of failures."""

import random

import pytest
from tests.support.hubs.live import CONFIG_MAP, live
from tests.support.hubs.wanted_objects import POLICY, WantedObjects

from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.delivery import key_state
from fairlead_hub.delivery.delivery_events import AckedByEdge, Parked, RemovedAtEdge, Retried
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import Reconcile, WindowLimits
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

KEY = "configmaps/shop/a"


@pytest.fixture
def view():
    return WantedObjects()


def hello(held=()):
    pairs = [(one.uid, one.digest) for one in held]
    sums = digest.Buckets.of(pairs, 0)
    return message.Hello(node="edge-1", agent="1", store_epoch=1, fence=0, bits=0, held=len(pairs), root=sums.root)


def session(view, held=(), **limits):
    made = NodeSession(
        node="edge-1", number=1, hello=hello(held), view=view, limits=WindowLimits(**limits), policy=POLICY,
        reconcile=Reconcile(parked_retry_seconds=60), held_max=100, keepalive_seconds=10, now=0.0,
    )  # fmt: skip
    welcome = message.Welcome(
        hub="h", fence=1, session=1, keepalive_seconds=10, frame_bytes_max=codec.FRAME_BYTES_MAX, upstream_window=1
    )
    made.welcome(welcome, 0.0)
    return made


def opened(view, held=(), **limits):
    """A session whose edge holds ``held``, past its opening frames."""
    made = session(view, held, **limits)
    sent = made.frames(0.0, 100)
    if any(isinstance(header, message.Compare) for header, _ in sent):
        [compare] = [header for header, _ in sent if isinstance(header, message.Compare)]
        sums = digest.Buckets.of([(one.uid, one.digest) for one in held], compare.bits).encode()
        receive(made, message.BucketSums(parent_id=compare.id, bits=compare.bits), sums, 0.0)
        for header, _ in made.frames(0.0, 100):
            if isinstance(header, message.ListBuckets):
                entries = b"[%b]" % b",".join(
                    b'["%b","%b","%b","%b"]' % (o.path.encode(), o.uid.encode(), o.digest.encode(), o.version.encode())
                    for o in held
                )
                receive(made, message.Entries(parent_id=header.id, last=True), entries, 0.0)
    made.keys.take_events()
    return made


def receive(session, header, content, now):
    """As the core does, by the type of the frame."""
    sessions = Sessions.__new__(Sessions)
    sessions.index = OpenSessions()
    sessions.index.add(session)
    sessions.receive(session.ref, header, content, now)


def sent(session, now=0.0):
    return [header for header, _ in session.frames(now, 100) if not isinstance(header, message.Keepalive)]


def outcomes(session):
    return session.keys.take_events()


def ack(session, header, now=0.0, **more):
    receive(session, message.Ack(parent_id=header.id, **more), b"", now)


def nack(session, header, now=0.0, **more):
    fields = {"code": "store_full", "reason": "no room", **more}
    receive(session, message.Nack(parent_id=header.id, **fields), b"", now)


def test_equal_stores_send_nothing(view):
    """A node that holds everything costs one welcome."""
    held = [view.put()]
    assert [type(header) for header in sent(session(view, held))] == [message.Welcome]


def test_the_difference_is_sent_after_the_comparison(view):
    """What is missing is delivered, what is not wanted is deleted by its UID."""
    wanted = view.put("a")
    gone = live(CONFIG_MAP, "old")
    made = opened(view, [gone])
    assert [(type(h), h.resource, h.uid) for h in sent(made)] == [
        (message.Update, wanted.path, wanted.uid),
        (message.Delete, gone.path, gone.uid),
    ]


def test_an_ack_is_what_the_hub_believes(view):
    """Nothing is held before it, and it says which version."""
    one = view.put(version="7")
    made = opened(view)
    [update] = sent(made)
    assert (update.resource_version, update.digest) == ("7", one.digest)
    assert KEY not in made.keys.held
    ack(made, update, 0.2)
    assert made.keys.held[KEY].version == "7"
    [acked] = outcomes(made)
    assert isinstance(acked, AckedByEdge) and acked.seconds == pytest.approx(0.2)


def test_many_changes_are_one_delivery(view):
    """Twenty updates while one is in flight: once more, with the newest."""
    view.put(data={"n": "0"})
    made = opened(view)
    [first] = sent(made)
    for n in range(1, 21):
        newest = view.put(version=str(n + 1), data={"n": str(n)})
        made.keys.offer(KEY, 0.1)
    assert sent(made) == [], "one in flight for a key"
    ack(made, first, 0.2)
    [second] = sent(made)
    assert second.digest == newest.digest
    ack(made, second, 0.3)
    assert sent(made) == []


def test_a_change_back_to_what_is_held_sends_nothing(view):
    """Newest wins, also when it is the old."""
    held = view.put(data={"k": "1"})
    made = opened(view, [held])
    view.put(data={"k": "2"}, version="2")
    made.keys.offer(KEY, 0.0)
    view.put(data={"k": "1"}, version="3")
    made.keys.offer(KEY, 0.0)
    assert sent(made) == []


def test_recreated_under_the_same_name(view):
    """The new UID replaces the old atomically: one update, no delete, and the old one's record may go."""
    made = opened(view, [view.put(uid="old")])
    view.put(uid="new", version="9")
    made.keys.offer(KEY, 0.0)
    [update] = sent(made)
    assert isinstance(update, message.Update) and update.uid == "new"
    ack(made, update)
    removed, acked = outcomes(made)
    assert isinstance(removed, RemovedAtEdge) and removed.uid == "old"
    assert isinstance(acked, AckedByEdge) and acked.held.uid == "new"


def test_deleted_before_it_was_sent(view):
    """A queued update followed by a delete of what was never held is nothing."""
    made = opened(view)
    view.put()
    made.keys.offer(KEY, 0.0)
    view.objects.clear()
    made.keys.offer(KEY, 0.0)
    assert sent(made) == []


def test_one_send_and_the_policys_retries_then_parked(view):
    """A delay starts after the timeout; parked says why and when it is tried again."""
    view.put()
    made = opened(view)
    times = []
    now = 0.0
    while KEY not in made.keys.unsynced.parked():
        made.tick(now)
        times += [now] * len(sent(made, now))
        now += 0.5
        receive(made, message.Keepalive(), b"", now)
    assert times == [0.0, 6.0, 13.0], "5 s timeout, then 1 s; 5 s timeout, then 2 s"
    parked = made.keys.unsynced.parked()[KEY]
    assert (parked.code, parked.retries) == ("timeout", 2)
    assert [type(o) for o in outcomes(made)] == [Retried, Retried, Parked]


def test_a_poison_object_does_not_delay_the_others(view):
    """While one is retried and parked, all others are acknowledged at once."""
    view.put("a")
    for n in range(5):
        view.put(f"b{n}")
    made = opened(view)
    updates = sent(made)
    assert len(updates) == 6
    for header in updates:
        if header.resource.endswith("/a"):
            nack(made, header, code="digest_mismatch", permanent=True)
        else:
            ack(made, header)
    assert set(made.keys.unsynced.parked()) == {KEY}
    assert len(made.keys.held) == 5


def test_a_long_explanation_is_cut(view):
    """A status that is too long is refused by the API server, and would not say that the object is parked."""
    view.put()
    made = opened(view)
    nack(made, sent(made)[0], code="too_large", reason="r" * 60_000, permanent=True)
    assert len(made.keys.unsynced.parked()[KEY].reason) == message.REASON_CHARS_MAX


def test_the_schedule_unparks_for_one_try(view):
    """Then it waits twice as long."""
    view.put()
    made = opened(view)
    nack(made, sent(made)[0], permanent=True)
    receive(made, message.Keepalive(), b"", 59.0)
    made.tick(60.0)
    [again] = sent(made, 60.0)
    nack(made, again, 60.0)
    assert made.keys.unsynced.parked()[KEY].next_retry_at == pytest.approx(60.0 + 120.0)


def test_a_late_ack_of_a_lapsed_send_counts(view):
    """The peer stored it and only the answer was slow: the retry is called off."""
    view.put()
    made = opened(view)
    [update] = sent(made)
    made.tick(5.0)
    ack(made, update, 5.5)
    assert KEY in made.keys.held
    made.tick(20.0)
    assert sent(made, 20.0) == []


def test_cumulative_acks_settle_all_before_them(view):
    """One small frame for a whole group commit."""
    for n in range(10):
        view.put(f"c{n}")
    made = opened(view)
    updates = sent(made)
    ack(made, updates[-1], cumulative=True)
    assert len(made.keys.held) == 10


def test_the_window_bounds_what_is_in_flight(view):
    """The rest waits for acks."""
    for n in range(10):
        view.put(f"c{n}")
    made = opened(view, messages=3)
    first = sent(made)
    assert len(first) == 3
    ack(made, first[0])
    assert len(sent(made)) == 1


def test_a_large_object_travels_in_parts_and_progress_restarts_its_timer(view):
    """A thin line is no failure."""
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
    view.put(data={"k": noise})
    made = opened(view, chunk_bytes=1024)
    frames = made.frames(0.0, 100)
    [update] = [header for header, _ in frames if isinstance(header, message.Update)]
    parts = [content for header, content in frames if isinstance(header, message.Chunk)]
    assert update.chunks == len(parts) > 1
    one = view.objects[KEY]
    assert (update.encoding, b"".join(parts)) == (one.encoding, one.content)
    receive(made, message.Progress(parent_id=update.id, chunks=1), b"", 4.0)
    made.tick(8.0)
    assert outcomes(made) == []
    made.tick(9.5)
    assert [type(o) for o in outcomes(made)] == [Retried]


UNASKED = [message.BucketSums(parent_id=1, bits=0), message.Entries(parent_id=1, last=True)]


@pytest.mark.parametrize("header", UNASKED)
def test_frames_that_were_not_asked_for_are_malformed(view, header):
    """A session answers only what belongs to it."""
    made = opened(view)
    with pytest.raises(Malformed):
        receive(made, header, b"", 0.0)


def test_a_retry_goes_when_its_time_comes_and_not_when_the_node_speaks_next(view):
    """After a tick something can be sent, or nothing is due: else the rim would wait, or turn in circles."""
    view.put()
    sent(made := opened(view))
    tries = 0
    while not made.keys.unsynced.parked():
        now = made.next_tick()
        assert made.tick(now) and (made.next_tick() > now or made.has_frames)
        tries += len(sent(made, now))
    assert tries == 2 and now == pytest.approx(5 + 1 + 5 + 2 + 5)


def test_what_no_edge_would_take_is_parked_and_not_sent(view):
    """With its reason, and what the edge holds of an older version stays; mended, it goes at once."""
    older = live(CONFIG_MAP, "a", data={"n": "1"})
    view.put("a", version="2", metadata={"labels": {"x": 1}})
    view.put("b")
    made = opened(view, [older])
    [update] = sent(made)
    assert update.resource.endswith("/b")
    [parked] = outcomes(made)
    assert isinstance(parked, Parked) and (parked.code, parked.retries) == ("malformed_content", 0)
    assert KEY in made.keys.held and "labels" in parked.reason
    ack(made, update)
    made.keys.offer(KEY, 1.0)
    assert sent(made, 1.0) == []
    view.put("a", version="3", metadata={"labels": {"x": "1"}})
    made.keys.offer(KEY, 2.0)
    [mended] = sent(made, 2.0)
    assert mended.resource_version == "3"


def test_an_unchanged_offer_takes_nothing_from_the_retries(view):
    """A label of a rule is edited while it is queued, in flight or waiting: the node is not sent more for it."""
    view.put()
    made = opened(view)
    sends, now = 0, 0.0
    while not made.keys.unsynced.parked():
        made.keys.offer(KEY, now)
        made.keys.diff(now)
        made.tick(now)
        made.keys.diff(now)
        sends += len(sent(made, now))
        made.keys.offer(KEY, now)
        now += 0.5
        receive(made, message.Keepalive(), b"", now)
        assert now < 60, "it never gives up"
    assert sends == 3


def test_something_newer_has_all_its_retries_also_after_a_scheduled_try(view):
    """What was parked was the older content."""
    view.put(data={"k": "1"})
    made = opened(view)
    nack(made, sent(made)[0], permanent=True)
    receive(made, message.Keepalive(), b"", 59.0)
    made.tick(60.0)
    [older] = sent(made, 60.0)
    view.put(data={"k": "2"}, version="2")
    made.keys.offer(KEY, 60.0)
    nack(made, older, 60.0)
    [newer] = sent(made, 60.0)
    nack(made, newer, 60.0)
    assert made.keys.unsynced.parked() == {}, "one failure of three that are allowed"


def test_a_late_ack_of_older_content_does_not_bring_a_newer_one_forward(view):
    """What failed was the newer: it waits for its retry as arranged."""
    view.put(data={"k": "1"})
    made = opened(view)
    [older] = sent(made)
    made.tick(5.0)
    view.put(data={"k": "2"}, version="2")
    made.keys.offer(KEY, 5.0)
    [newer] = sent(made, 5.0)
    nack(made, newer, 5.5, retry_after=20)
    ack(made, older, 6.0)
    assert made.keys.held[KEY].version == "1" and sent(made, 6.0) == []
    receive(made, message.Keepalive(), b"", 25.5)
    made.tick(25.5)
    assert [header.resource_version for header in sent(made, 25.5)] == ["2"]


def test_a_mistake_of_ours_about_one_key_ends_this_session_where_it_is_asked_for_frames(view, monkeypatch):
    """The change of the object goes on to the other nodes; the node comes back and is compared."""
    made = opened(view)
    view.put()
    monkeypatch.setitem(key_state.TRANSITIONS, key_state.InSync, {})
    made.keys.offer(KEY, 0.0)
    assert made.has_frames and made.tick(1.0)
    with pytest.raises(key_state.ImpossibleTransition, match=f"{KEY}: IN_SYNC cannot become QUEUED when offered"):
        made.frames(1.0, 100)
