"""The catalog and its indexes."""

from tests.support.hubs.live import CONFIG_MAP, POD, live

from fairlead_hub.cluster.object_cache import ObjectCache


def pod(name, node, *maps):
    return live(POD, name, spec={"nodeName": node, "volumes": [{"configMap": {"name": m}} for m in maps]})


def test_the_same_content_is_no_change():
    """Only the newest version with it is remembered."""
    object_cache = ObjectCache()
    assert object_cache.put(live(CONFIG_MAP, "a", version="1", data={})) is not None
    assert object_cache.put(live(CONFIG_MAP, "a", version="9", data={})) is None
    kept = object_cache.get("configmaps/shop/a")
    assert kept is not None and (kept.version, kept.seen_version) == ("1", "9")


def test_a_restored_api_server_may_go_back():
    """The watch is ordered, versions are not: an older version with other content is what is there now."""
    object_cache = ObjectCache()
    object_cache.put(live(CONFIG_MAP, "a", version="9", data={"k": "new"}))
    change = object_cache.put(live(CONFIG_MAP, "a", version="3", data={"k": "old"}))
    assert change is not None and change.after is not None and change.after.version == "3"


def test_a_late_delete_of_an_older_namesake_changes_nothing():
    """Recreated under the same name: the old UID's delete is not the new one's."""
    object_cache = ObjectCache()
    object_cache.put(live(CONFIG_MAP, "a", uid="old"))
    object_cache.put(live(CONFIG_MAP, "a", uid="new"))
    assert object_cache.remove("configmaps/shop/a", "old") is None
    change = object_cache.remove("configmaps/shop/a", "new")
    assert change is not None and change.after is None
    assert len(object_cache) == 0


def test_references_are_counted_by_pod():
    """Two Pods mount it: it stays referenced until the second goes; a Pod that moves takes its references along."""
    object_cache = ObjectCache()
    object_cache.put(pod("p", "edge-1", "c"))
    object_cache.put(pod("q", "edge-1", "c"))
    object_cache.remove("pods/shop/p", "uid-p")
    assert list(object_cache.referrers("configmaps/shop/c")) == ["edge-1"]
    object_cache.put(pod("q", "edge-2", "c"))
    assert list(object_cache.referrers("configmaps/shop/c")) == ["edge-2"]
    assert object_cache.bound_to("edge-1") == {}
    object_cache.remove("pods/shop/q", "uid-q")
    assert list(object_cache.referrers("configmaps/shop/c")) == []
    assert list(object_cache.referred_from("edge-2")) == []


def test_a_claim_made_for_a_pod_is_referred_to_as_soon_as_its_status_names_it():
    """The content that is delivered stays the same, and so does the version it came from."""
    object_cache = ObjectCache()
    before = live(POD, "p", version="1", spec={"nodeName": "edge-1"})
    object_cache.put(before)
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]}
    change = object_cache.put(live(POD, "p", version="2", spec={"nodeName": "edge-1"}, status=status))
    assert change is not None and change.after is not None and change.after.digest == before.digest
    assert (change.after.version, change.after.seen_version, change.after.held) == ("1", "2", before.held)
    assert list(object_cache.referrers("resourceclaims.resource.k8s.io/shop/p-gpu")) == ["edge-1"]
    object_cache.remove(before.key, before.uid)
    assert list(object_cache.referrers("resourceclaims.resource.k8s.io/shop/p-gpu")) == []


def test_a_kind_is_forgotten_as_a_whole():
    """No rule names it any more; its generation rises so that caches over it notice."""
    object_cache = ObjectCache()
    object_cache.put(live(CONFIG_MAP, "a"))
    object_cache.put(live(CONFIG_MAP, "b"))
    before = object_cache.generation[CONFIG_MAP.group_kind]
    assert len(object_cache.forget_kind(CONFIG_MAP.group_kind)) == 2
    assert object_cache.of_kind(CONFIG_MAP.group_kind) == {}
    assert object_cache.generation[CONFIG_MAP.group_kind] > before
