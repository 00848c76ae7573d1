"""A device joins a hub: what is sent to whom, what is on disk then, and each way in which it does not work."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import secrets
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.joining.join_hub import JoinHub
from tests.support.joining.pki import Authority
from tests.support.small_disk import FILLING, small_disk
from websockets.asyncio.server import ServerConnection, serve

from fairlead_edge.identity import clock
from fairlead_edge.io import data_dir
from fairlead_edge.io.identity import join
from fairlead_edge.io.identity.device import CannotConfigure, CannotJoin
from fairlead_edge.io.identity.identity_files import BadPair, IdentityFiles, Pending
from fairlead_edge.io.identity.join_client import RefusedByHub, UnexpectedAnswer
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.outbox.age import ClockReading
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle, join_token
from fairlead_wire.identity.join_token import JoinToken
from fairlead_wire.io import settings as settings_io

pytestmark = pytest.mark.process

MIB = 1024 * 1024
PAGE_BYTES = 4096


class Device:
    """A folder, and what is said there."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "edge.toml"
        self.environ: dict[str, str] = {}
        self.said: dict[str, str] = {}

    @property
    def files(self) -> IdentityFiles:
        return IdentityFiles.of(self.config.parent / "edge-data")

    async def join(self, hub: JoinHub, token: JoinToken, *, url: str = "", **wanted: Any) -> join.Joined:
        asked = join.JoinOptions(url=url or hub.url, token=token, config=self.config, **wanted)
        return await join.join(asked, self.environ, self.said.__setitem__)

    def settings(self) -> EdgeSettings:
        return settings_io.load("edge", EdgeSettings, self.config, self.environ)

    def is_untouched(self) -> bool:
        return not self.config.exists() and self.files.current() is None


@pytest.fixture
def device(tmp_path: Path) -> Device:
    folder = tmp_path / "device"
    folder.mkdir()
    return Device(folder)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[JoinHub]:
    async with JoinHub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "RETRY_SECONDS_MAX", 0.0)


async def test_a_device_joins(hub: JoinHub, device: Device) -> None:
    token = hub.token()
    done = await device.join(hub, token)
    assert (done.node, done.config) == ("shop-17", device.config)
    own = device.files.current()
    assert own is not None and own.certificate.name == "shop-17"
    assert own.path.stat().st_mode & 0o777 == 0o600
    assert device.files.authorities.read_bytes() == hub.internal.certificate.read_bytes()
    assert sorted(os.listdir(device.files.folder)) == sorted(
        [own.path.name, "node.pem", "authorities.pem", "issuers.pem"]
    )
    ca_file = device.config.parent / "edge-ca.crt"
    assert ca_file.read_bytes() == hub.edges.certificate.read_bytes() and ca_file.stat().st_mode & 0o777 == 0o644
    settings = device.settings()
    assert (settings.node, settings.hub_url, settings.data_dir) == ("shop-17", hub.url, str(device.files.folder.parent))
    assert settings.tls_cert == settings.tls_key == str(device.files.link)
    assert settings.tls_ca == str(device.files.authorities)

    asked, joined = hub.seen
    assert isinstance(asked[0], message.AskAuthorities) and asked[1] == b"", "the first connection brings nothing"
    assert isinstance(joined[0], message.Join)
    assert (joined[0].token_id, joined[0].secret, joined[0].node) == (token.id, token.secret, "")
    assert list(device.said) == [
        "clock here",
        "clock of the hub",
        "authority",
        "key",
        "certificate",
        "CA file",
        "settings",
    ]


@pytest.mark.parametrize("given", ["option", "file", "variable"])
async def test_the_name_is_asked_for_where_it_is_known(hub: JoinHub, device: Device, given: str) -> None:
    if given == "file":
        device.config.write_text('# ours\nnode = "shop-17"\n[store]\nevict = "less-urgent"\n')
    if given == "variable":
        device.environ["FAIRLEAD_EDGE_NODE"] = "shop-17"
    await device.join(hub, hub.token(), node="shop-17" if given == "option" else "")
    assert hub.joins[0][0].node == "shop-17" and b"shop-17" in hub.joins[0][1]
    assert device.settings().node == "shop-17"
    if given == "file":
        assert "# ours" in device.config.read_text() and device.settings().store.evict == "less-urgent"
    if given == "variable":
        assert "node" not in tomllib.loads(device.config.read_text())


async def test_settings_that_say_all_this_are_left_alone(hub: JoinHub, device: Device) -> None:
    """A file that other tools own, perhaps mounted read-only, needs no change where it names the right files."""
    folder = device.config.parent / "store"
    identity = folder / "identity"
    text = (
        f'node = "shop-17"\nhub_url = "{hub.url}"\ndata_dir = "{folder}"\ntls_ca = "{identity}/authorities.pem"\n'
        f'tls_cert = "{identity}/node.pem"\ntls_key = "{identity}/node.pem"\n'
    )
    device.config.write_text(text)
    before = device.config.stat()
    await device.join(hub, hub.token())
    assert device.config.read_text() == text and device.config.stat().st_ino == before.st_ino
    assert "unchanged" in device.said["settings"]


@pytest.mark.parametrize(
    ("text", "environ", "sentence"),
    [
        ("node = ", {}, "not TOML"),
        ('[store]\nevict = "sometimes"\n', {}, "store.evict: must be"),
        ('hub_url = """\nwss://hub:1"""\n', {}, "write these into it by hand: "),
        ("", {"FAIRLEAD_EDGE_TLS_KEY": "/etc/key.pem"}, "FAIRLEAD_EDGE_TLS_KEY is set and overrides the file"),
        ("", {"FAIRLEAD_EDGE_SECURITY": "insecure"}, "FAIRLEAD_EDGE_SECURITY is set and overrides the file"),
    ],
)
async def test_settings_that_will_not_do_are_refused_first(
    hub: JoinHub, device: Device, text: str, environ: dict[str, str], sentence: str
) -> None:
    device.config.write_text(text)
    device.environ = environ
    with pytest.raises(CannotConfigure, match=sentence):
        await device.join(hub, hub.token())
    assert hub.seen == [] and device.config.read_text() == text


async def test_an_insecure_file_becomes_a_secure_one(hub: JoinHub, device: Device) -> None:
    device.config.write_text('security = "insecure" # for a trial\n')
    await device.join(hub, hub.token())
    assert device.settings().security == "mtls" and "# for a trial" in device.config.read_text()


async def test_another_name_in_the_settings_is_refused(hub: JoinHub, device: Device) -> None:
    device.config.write_text('node = "shop-18"\n')
    with pytest.raises(CannotJoin, match="names node shop-18, but --node says shop-17"):
        await device.join(hub, hub.token(), node="shop-17")
    assert hub.seen == []


async def test_a_hub_that_certifies_another_name_is_not_believed(hub: JoinHub, device: Device) -> None:
    hub.node = "shop-99"
    with pytest.raises(CannotJoin, match="to shop-99, not to shop-17"):
        await device.join(hub, hub.token(), node="shop-17")
    assert device.is_untouched()


# ---- who is the hub? -------------------------------------------------------------------------------


async def test_a_token_is_not_sent_to_another_authority(hub: JoinHub, device: Device, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger")
    token = join_token.make(secrets.token_bytes, list(authority_bundle.by_pin(stranger.certificate.read_bytes())))
    with pytest.raises(CannotJoin, match="is not the hub this token was made for") as refused:
        await device.join(hub, token)
    assert token.pins[0] in str(refused.value) and token.secret not in str(refused.value)
    assert hub.joins == [] and device.is_untouched()


async def test_a_mistyped_pin_is_named_as_what_it_is(hub: JoinHub, device: Device) -> None:
    right = hub.token()
    digit = "0" if right.pins[0][7] != "0" else "1"
    wrong = f"{right.pins[0][:7]}{digit}{right.pins[0][8:]}"
    with pytest.raises(CannotJoin, match="They are nearly the same, so the token was probably mistyped; paste it"):
        await device.join(hub, join_token.JoinToken(id=right.id, secret=right.secret, pins=(wrong,)))
    assert hub.joins == [] and device.is_untouched()


async def test_a_man_in_the_middle_with_the_true_authority_gets_nothing(
    hub: JoinHub, device: Device, tmp_path: Path
) -> None:
    async with JoinHub(tmp_path / "middle") as middle:
        middle.authorities = hub.internal.certificate.read_bytes() + middle.internal.certificate.read_bytes()
        with pytest.raises(CannotJoin, match=r"The token was not sent: .*make a new token"):
            await device.join(hub, hub.token(), url=middle.url)
        assert middle.joins == [] and device.is_untouched()


async def test_a_hub_under_another_name_gets_nothing(device: Device, tmp_path: Path) -> None:
    async with JoinHub(tmp_path / "hub", hosts=("hub.example",)) as hub:
        with pytest.raises(CannotJoin, match=r"The token was not sent: use a name from the hub's certificate"):
            await device.join(hub, hub.token())
        assert hub.joins == []


async def test_a_hub_that_signs_nothing_is_named(device: Device, tmp_path: Path) -> None:
    hub = JoinHub(tmp_path / "hub")
    hub.requires_certificates = True
    async with hub:
        with pytest.raises(
            CannotJoin, match=r"accepts no device without a certificate because its \[identity\] signer is off"
        ):
            await device.join(hub, hub.token())


async def test_a_hub_without_tls_is_named(hub: JoinHub, device: Device, tmp_path: Path) -> None:
    async with serve(ServerConnection.wait_closed, "127.0.0.1", 0) as plain:
        port = next(iter(plain.sockets)).getsockname()[1]
        with pytest.raises(CannotJoin, match=r'does not speak TLS\. Nothing was sent\. .*security is "insecure"'):
            await device.join(hub, hub.token(), url=f"wss://127.0.0.1:{port}")
    assert device.is_untouched()


@pytest.mark.parametrize("content", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----"])
async def test_authorities_that_cannot_be_read_are_one_sentence(hub: JoinHub, device: Device, content: bytes) -> None:
    hub.authorities = content
    with pytest.raises(CannotJoin, match="it is not a hub, or a broken one"):
        await device.join(hub, hub.token())


async def test_no_hub_there_is_one_sentence(hub: JoinHub, device: Device) -> None:
    url = hub.url
    await hub.__aexit__()
    with pytest.raises(CannotJoin, match=r"nothing was sent. Check the URL, the network and the proxy"):
        await device.join(hub, hub.token(), url=url)


# ---- the clock -------------------------------------------------------------------------------------


def show_clock(monkeypatch: pytest.MonkeyPatch, moment: datetime.datetime) -> None:
    reading = ClockReading(boot_id="b", boot_seconds=1.0, wall_seconds=moment.timestamp())
    monkeypatch.setattr(store_clock, "read", lambda: reading)


async def test_a_clock_that_cannot_be_right_does_not_hinder(
    hub: JoinHub, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 1970 the pin alone decides, and what ended before this program was built."""
    show_clock(monkeypatch, datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC))
    await device.join(hub, hub.token())


async def test_a_certificate_that_ended_before_the_program_was_built_is_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show_clock(monkeypatch, datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC))
    ended = clock.BUILD_DATE - datetime.timedelta(days=1) - datetime.datetime.now(datetime.UTC)
    async with JoinHub(tmp_path / "hub", valid=ended) as hub:
        with pytest.raises(CannotJoin, match=r"expired.*The token was not sent"):
            await device.join(hub, hub.token())
        assert hub.joins == []


async def test_a_certificate_that_is_not_valid_now_names_the_clock(device: Device, tmp_path: Path) -> None:
    async with JoinHub(tmp_path / "hub", valid=datetime.timedelta(minutes=-1)) as hub:
        with pytest.raises(CannotJoin, match=r"set this device's clock .it shows 20.*or renew the hub's certificate"):
            await device.join(hub, hub.token())
        assert hub.joins == []


# ---- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["token_used", "token_unknown", "name_taken", "join_off", "of-a-later-version"])
async def test_a_refusal_is_passed_on(hub: JoinHub, device: Device, code: str) -> None:
    hub.answers = [("refuse", code, None)]
    with pytest.raises(RefusedByHub, match=f"{code}: so it is") as refused:
        await device.join(hub, hub.token())
    assert device.is_untouched() and device.files.pending() is not None
    hints = "If this device joined before with another --config, " in str(refused.value)
    assert hints is (code in ("token_used", "name_taken")), "only who has the key gets the certificate again"


async def test_a_key_that_the_hub_does_not_take_is_made_anew(hub: JoinHub, device: Device) -> None:
    token = hub.token()
    hub.answers = [("refuse", "csr_key_reused", None)]
    with pytest.raises(RefusedByHub):
        await device.join(hub, token)
    await device.join(hub, token)
    first, second = (request for _, request in hub.joins)
    assert first != second


@pytest.mark.parametrize("answers", [[("refuse", "too_many", 0.0)], [("hang up",)], [("hang up",), ("hang up",)]])
async def test_it_asks_again_with_the_same_key(hub: JoinHub, device: Device, answers: list[Any]) -> None:
    hub.answers = list(answers)
    await device.join(hub, hub.token())
    assert len({request for _, request in hub.joins}) == 1 and len(hub.joins) == len(answers) + 1


@pytest.mark.usefixtures("impatient")
async def test_the_same_command_again_gets_the_same_certificate(hub: JoinHub, device: Device) -> None:
    """The process ended before the answer came: the key waited on disk."""
    token = hub.token()
    hub.answers = [("hang up",)]
    with pytest.raises(CannotJoin, match="run the same command again: it uses the same key"):
        await device.join(hub, token)
    await device.join(hub, token)
    assert len({request for _, request in hub.joins}) == 1
    current = device.files.current()
    assert current is not None and device.files.chain(current) in hub.issued.values()


async def test_another_token_gets_another_key(hub: JoinHub, device: Device) -> None:
    """One that may have been certified under another name must not come again."""
    hub.answers = [("refuse", "token_node", None)]
    with pytest.raises(RefusedByHub):
        await device.join(hub, hub.token(), node="shop-18")
    await device.join(hub, hub.token(), node="shop-17")
    first, second = (request for _, request in hub.joins)
    assert first != second


async def test_what_was_received_is_completed_without_the_hub(hub: JoinHub, device: Device) -> None:
    """Ended between the pair and the settings file: the hub is not asked, since the token may be spent by now."""
    token = hub.token()
    device.config.mkdir()  # in the way of the file
    with pytest.raises(CannotConfigure):
        await device.join(hub, token)
    device.config.rmdir()
    await device.join(hub, token)
    pair = device.files.current()
    assert pair is not None
    device.files.keep_pending(Pending(key=device.files.key(pair), request=hub.joins[0][1], purpose=f"join {token.id}"))
    device.files.link.unlink()
    device.config.unlink()
    asked = len(hub.seen)
    assert (await device.join(hub, token)).node == "shop-17"
    assert len(hub.seen) == asked and device.settings().node == "shop-17" and device.files.current() == pair


@pytest.mark.parametrize(
    "answer",
    [
        (message.Authorities(), b""),
        (message.Challenge(nonce="00"), b""),
        (message.Issued(node="shop-17", expires=""), b"no json"),
        (message.Issued(node="shop-17", expires=""), b'{"certificates": 1, "authorities": ""}'),
    ],
)
async def test_a_strange_answer_is_one_sentence(hub: JoinHub, device: Device, answer: tuple[Any, bytes]) -> None:
    hub.answers = [("send", *answer)]
    with pytest.raises(UnexpectedAnswer):
        await device.join(hub, hub.token())
    assert device.is_untouched()


async def test_a_certificate_of_another_key_is_not_used(hub: JoinHub, device: Device) -> None:
    other = hub.edges.issue("shop-17").certificate.read_text()
    for certificates, authorities in ((other, hub.internal.certificate.read_text()), (other, "")):
        issued = message.IssuedCertificates(certificates=certificates, authorities=authorities)
        content = msgspec.json.encode(issued)
        hub.answers = [("send", message.Issued(node="shop-17", expires=""), content)]
        with pytest.raises(BadPair):
            await device.join(hub, hub.token())
        assert device.is_untouched()


# ---- the disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [0, 1, 2, 4, 8, 16, 40, 63])
async def test_a_disk_without_room_costs_no_token(hub: JoinHub, device: Device, pages: int) -> None:
    """However much is left that is too little: nothing is asked of the hub, and the same token is good afterwards."""
    token = hub.token()
    with small_disk(device.config.parent, 2 * MIB) as disk:
        disk.fill()
        with (disk.path / FILLING).open("r+b") as filling:
            filling.truncate(filling.seek(0, os.SEEK_END) - pages * PAGE_BYTES)
        with pytest.raises((CannotJoin, CannotConfigure), match=r"No space left on device.*free some room"):
            await device.join(hub, token)
        assert hub.seen == [] and device.is_untouched()
        disk.free()
        assert (await device.join(hub, token)).node == "shop-17"


async def test_a_disk_that_others_fill_meanwhile_has_room_for_the_answer(hub: JoinHub, device: Device) -> None:
    certify = hub.certificate
    with small_disk(device.config.parent, 2 * MIB) as disk:

        def issued(request: bytes) -> bytes:
            disk.fill()
            return certify(request)

        hub.certificate = issued  # type: ignore[method-assign]
        await device.join(hub, hub.token())
        disk.free()
        await device.join(hub, hub.token(), force=True)
        assert not list(device.files.folder.glob(".*"))


@pytest.mark.parametrize("name", ["authorities.pem", "issuers.pem", "pending.pem", "node.pem"])
async def test_a_folder_in_the_way_of_a_file_costs_no_token(hub: JoinHub, device: Device, name: str) -> None:
    (device.files.folder / name).mkdir(parents=True)
    with pytest.raises(CannotJoin, match=rf"{name}: is a folder; move it away\. Nothing was sent"):
        await device.join(hub, hub.token(), force=True)
    assert hub.seen == []


async def test_a_read_only_disk_costs_no_token(hub: JoinHub, device: Device) -> None:
    with small_disk(device.config.parent, MIB) as disk, disk.read_only():
        with pytest.raises(CannotJoin, match=r"Read-only file system.*Nothing was sent"):
            await device.join(hub, hub.token())
        assert hub.seen == []


async def test_local_programs_are_no_reason_to_fail(hub: JoinHub, device: Device) -> None:
    (device.config.parent / "edge-ca.crt").mkdir()
    await device.join(hub, hub.token())
    assert re.search(r"edge-ca\.crt cannot be written .*copy .*/issuers\.pem", device.said["CA file"])


# ---- this device -----------------------------------------------------------------------------------


async def test_a_device_that_has_an_identity_keeps_it(hub: JoinHub, device: Device) -> None:
    await device.join(hub, hub.token())
    first, asked = device.files.current(), len(hub.seen)
    with pytest.raises(CannotJoin, match=r"joined as shop-17 .*--force and a new token .a used one .*token_used"):
        await device.join(hub, hub.token())
    assert len(hub.seen) == asked
    await device.join(hub, hub.token(), force=True)
    assert device.files.current() != first and device.files.others() == [first]


async def test_a_damaged_identity_is_replaced_by_force(hub: JoinHub, device: Device) -> None:
    device.files.folder.mkdir(parents=True)
    device.files.link.symlink_to("node-ab.pem")
    with pytest.raises(CannotJoin, match="--force replaces it"):
        await device.join(hub, hub.token())
    await device.join(hub, hub.token(), force=True)


async def test_a_running_agent_is_not_joined(hub: JoinHub, device: Device) -> None:
    held = data_dir.lock(device.files.folder.parent)
    with pytest.raises(CannotJoin, match=r"in use by another edge agent .* stop it first \(systemctl stop"):
        await device.join(hub, hub.token())
    os.close(held)
    assert hub.seen == []


async def test_two_joins_at_once_are_one(hub: JoinHub, device: Device) -> None:
    found = await asyncio.gather(*(device.join(hub, hub.token()) for _ in range(2)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in found) == ["CannotJoin", "Joined"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_files_that_root_makes_belong_to_the_agents_user(hub: JoinHub, device: Device) -> None:
    device.files.folder.parent.mkdir()
    try:
        os.chown(device.files.folder.parent, 12345, 23456)
    except OSError as error:  # in a namespace that has no such users
        pytest.skip(str(error))
    done = await device.join(hub, hub.token())
    made = [device.files.folder.parent, *device.files.folder.parent.rglob("*")]
    assert len(made) == 7
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(12345, 23456)}
    assert (device.config.stat().st_gid, device.config.stat().st_mode & 0o777) == (23456, 0o640)
    assert done.owner == "12345"
