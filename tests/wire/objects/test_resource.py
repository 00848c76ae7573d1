"""Resource paths: what kubectl asks for, unambiguous whatever words users choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_wire.errors import Malformed
from fairlead_wire.objects import resource
from fairlead_wire.objects.resource import is_comparable, is_newer

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,30}[a-z0-9])?", fullmatch=True).filter(lambda name: name != "..")


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/namespaces/shop/configmaps/prices",
        "api/v1/nodes/edge-1",
        "api/v1/namespaces/shop",
        "apis/apps/v1/namespaces/shop/deployments/till",
        "apis/fairlead.dev/v1alpha1/edgeroutes/main",
    ],
)
def test_a_path_survives_parsing(path):
    assert resource.parse(path).path == path


def test_scope_is_read_from_the_shape():
    """A Namespace object is cluster-scoped although the word also introduces a namespace."""
    assert resource.parse("api/v1/namespaces/shop").namespace == ""
    assert resource.parse("api/v1/namespaces/shop").plural == "namespaces"
    assert resource.parse("api/v1/namespaces/shop/pods/a").namespace == "shop"


@pytest.mark.parametrize("word", ["node", "membership", "status", "podlist", "namespaces", "api"])
def test_words_of_ours_are_just_names(word):
    """A ConfigMap called like one of our words is a ConfigMap (the peer's substring search breaks here)."""
    parsed = resource.parse(f"api/v1/namespaces/{word}/configmaps/{word}")
    assert (parsed.namespace, parsed.plural, parsed.name) == (word, "configmaps", word)


def test_the_key_leaves_the_version_out():
    """One object read under two versions is one key: one in flight at a time."""
    old = resource.parse("apis/batch/v1beta1/namespaces/a/cronjobs/x")
    new = resource.parse("apis/batch/v1/namespaces/a/cronjobs/x")
    assert old.key == new.key == "cronjobs.batch/a/x"
    assert new.api_version == "batch/v1"


@pytest.mark.parametrize(
    "path",
    ["", "/", "api", "api/v1", "api/v1/pods", "api/v1//pods/x", "api/v1/namespaces/a/pods/../x", "apis/apps/v1/a",
     "api/v1/namespaces/a/pods/x%2Fy", "api/v1/namespaces/a/pods/x?y", "other/v1/nodes/x", "a/" * 600],
)  # fmt: skip
def test_anything_else_is_refused(path):
    with pytest.raises(Malformed):
        resource.parse(path)


@pytest.mark.slow
@given(group=st.one_of(st.just(""), NAMES), namespace=st.one_of(st.just(""), NAMES), plural=NAMES, name=NAMES)
def test_round_trip(group, namespace, plural, name):
    if not namespace and plural == "namespaces":
        group = ""
    one = resource.Resource(group=group, version="v1", plural=plural, namespace=namespace, name=name)
    assert resource.parse(one.path) == one


# ---- order of resourceVersions ----


@pytest.mark.parametrize(
    ("candidate", "than", "expected"),
    [
        ("10", "9", True), ("9", "10", False), ("10", "10", False),
        ("1", "", True), ("", "1", False), ("", "", False),
        ("7", "foreign", True), ("foreign", "7", False), ("b", "a", False),
        ("18446744073709551616", "18446744073709551615", True),
        ("9" * 65, "1", False), ("٣", "1", False), ("007", "1", False), ("-5", "1", False),
    ],
)  # fmt: skip
def test_newer(candidate, than, expected):
    """Decimal numbers compare as numbers; garbage is never newer and never raises."""
    assert is_newer(candidate, than) is expected


def test_zero_is_a_version():
    assert is_comparable("0")
    assert not is_comparable("00")


@pytest.mark.parametrize(
    ("key", "read"),
    [
        ("edgeroutes.fairlead.dev//mine", "edgeroutes.fairlead.dev/mine"),
        ("configmaps/shop/prices", "configmaps/shop/prices"),
        ("configmap/prices", "configmap/prices"),
    ],
)
def test_a_key_for_people(key, read):
    """Without the place of a namespace that the object has not."""
    assert resource.shown(key) == read
