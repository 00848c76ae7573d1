"""How an object looks on the wire."""

from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.delivery import frames
from fairlead_wire import message


def test_a_small_object_is_one_frame_with_the_shared_content() -> None:
    """Not a copy: two thousand nodes hold the same bytes."""
    one = live(CONFIG_MAP, "a")
    [(header, content)] = frames.update(7, one, 1 << 20)
    assert isinstance(header, message.Update)
    assert (header.id, header.resource, header.uid, header.chunks) == (7, one.path, one.uid, 0)
    assert content is one.content


def test_a_large_object_travels_in_parts_that_make_up_the_whole() -> None:
    """In order, none larger than asked; exactly one part's length is not large."""
    one = live(CONFIG_MAP, "a", data={"v": "".join(chr(33 + n * 7 % 90) for n in range(3000))})
    size = len(one.content) // 3
    first, *rest = frames.update(7, one, size)
    assert isinstance(first[0], message.Update) and first == (first[0], b"")
    assert first[0].chunks == len(rest) == frames.parts_of(one, size)
    assert [header.index for header, _ in rest if isinstance(header, message.Chunk)] == list(range(len(rest)))
    assert b"".join(part for _, part in rest) == one.content and max(len(part) for _, part in rest) == size
    assert frames.parts_of(one, len(one.content)) == 0


def test_a_delete_names_what_it_is_about() -> None:
    """By UID, so that a newer object under the same name stays."""
    held = live(CONFIG_MAP, "a").held
    assert frames.delete(8, held) == (message.Delete(id=8, resource=held.path, uid=held.uid), b"")
