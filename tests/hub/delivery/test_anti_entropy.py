"""The comparison finds exactly what differs, from any two sets."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.delivery.anti_entropy import Comparison
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

STORES = st.dictionaries(st.sampled_from([f"c{n}" for n in range(12)]), st.integers(0, 2), max_size=12)


def objects(store):
    made = (live(CONFIG_MAP, name, data={"v": str(value)}) for name, value in store.items())
    return {one.key: one for one in made}


def entries_of(held):
    return [message.HeldEntry(one.path, one.uid, one.digest, one.version) for one in held.values()]


def compare(wanted, held, held_max=1000):
    """Play the edge's part over a store ``held``; answers what the hub then believes."""
    comparison = Comparison(wanted=wanted, held_max=held_max)
    pairs = [(one.uid, one.digest) for one in held.values()]
    sums = digest.Buckets.of(pairs, digest.bits_for(len(pairs)))
    hello = message.Hello(node="n", agent="1", store_epoch=1, fence=0, bits=sums.bits, held=len(pairs), root=sums.root)
    if comparison.equal_from_the_start(hello):
        return comparison.all_held()
    asked = comparison.ask(1, hello.held)
    answer = digest.Buckets.of(pairs, asked.bits).encode()
    listing = comparison.buckets_arrived(message.BucketSums(parent_id=1, bits=asked.bits), answer, 2)
    if listing is not None:
        entries = [e for e in entries_of(held) if digest.bucket_of(e.uid, asked.bits) in listing.buckets]
        encoding, packed = codec.pack(msgspec.json.encode(entries))
        assert comparison.entries_arrived(message.Entries(parent_id=2, last=True, encoding=encoding), packed)
    return comparison.result()


@pytest.mark.slow
@given(STORES, STORES)
def test_the_hub_learns_exactly_what_the_edge_holds(wanted, held):
    """Whatever the two sets, afterwards the hub's account is the edge's store."""
    learned = compare(objects(wanted), objects(held))
    expected = {key: (one.uid, one.digest) for key, one in objects(held).items()}
    assert {key: (one.uid, one.digest) for key, one in learned.items()} == expected


@pytest.mark.parametrize(
    "entry",
    [
        ["api/v1/namespaces/shop/configmaps/a", "x/../../../pods/y", "d", "1"],
        ["api/v1/namespaces/shop/configmaps/a", "1.another-nodes-record", "d", "1"],
        ["api/v1/namespaces/shop/configmaps/a", "", "d", "1"],
        ["api/v1/namespaces/shop/configmaps/a", "u" * 100_000, "d", "1"],
        ["api/v1/namespaces/shop/configmaps/a", "u", "d" * 100_000, "1"],
        ["api/v1/namespaces/shop/configmaps/a", "u", "d", "1" * 100_000],
        ["api/v1/namespaces/../configmaps/a", "u", "d", "1"],
        ["a" * 100_000, "u", "d", "1"],
    ],
)
def test_an_edge_cannot_name_what_is_no_object(entry):
    """Records are named after UIDs and lie under paths of the API: neither is the edge's to make up."""
    comparison = Comparison(wanted=objects({"a": 1}), held_max=1000)
    asked = comparison.ask(1, 1)
    sums = digest.Buckets(asked.bits).encode()
    comparison.buckets_arrived(message.BucketSums(parent_id=1, bits=asked.bits), sums, 2)
    with pytest.raises(Malformed):
        comparison.entries_arrived(message.Entries(parent_id=2, last=True), msgspec.json.encode([entry]))


def test_equal_stores_exchange_nothing():
    """One frame and its answer, whatever is held."""
    store = objects({"a": 1, "b": 2})
    pairs = [(one.uid, one.digest) for one in store.values()]
    hello = message.Hello(
        node="n", agent="1", store_epoch=1, fence=0, bits=0, held=2, root=digest.Buckets.of(pairs, 0).root
    )
    assert Comparison(wanted=store, held_max=10).equal_from_the_start(hello)
    lying = msgspec.structs.replace(hello, bits=99)
    assert not Comparison(wanted=store, held_max=10).equal_from_the_start(lying)


@pytest.mark.parametrize(
    "arrive",
    [
        lambda c: c.buckets_arrived(message.BucketSums(parent_id=9, bits=0), b"\0" * 16, 2),
        lambda c: c.buckets_arrived(message.BucketSums(parent_id=1, bits=3), b"\0" * 128, 2),
        lambda c: c.buckets_arrived(message.BucketSums(parent_id=1, bits=0), b"\0" * 3, 2),
        lambda c: c.entries_arrived(message.Entries(parent_id=1, last=True), b"[]"),
    ],
)
def test_answers_to_other_questions_are_malformed(arrive):
    """A hostile edge cannot confuse the comparison."""
    comparison = Comparison(wanted=objects({"a": 1}), held_max=10)
    comparison.ask(1, 1)
    with pytest.raises(Malformed):
        arrive(comparison)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[[1]]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'[["../x","u","d","1"]]',
        b'[["api/v1/nodes/x","u","d","1"]]' * 2,
    ],
)
def test_entries_that_are_none_are_malformed(content):
    """Neither bytes that are no JSON nor paths that are no paths raise anything else."""
    comparison = Comparison(wanted=objects({"a": 1}), held_max=10)
    asked = comparison.ask(1, 1)
    comparison.buckets_arrived(message.BucketSums(parent_id=1, bits=asked.bits), b"\0" * 16, 2)
    with pytest.raises(Malformed):
        comparison.entries_arrived(message.Entries(parent_id=2, last=True), content)


def test_more_entries_than_allowed_are_refused():
    """One edge cannot fill the hub's memory."""
    with pytest.raises(Malformed, match="more than 3"):
        compare(objects({"a": 1}), objects({f"c{n}": 1 for n in range(5)}), held_max=3)
