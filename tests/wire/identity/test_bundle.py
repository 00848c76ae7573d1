"""Bundles of authorities: the same digest for the same certificates, and no half of a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.joining.pki import Authority

from fairlead_wire.identity import bundle


def test_the_digest_is_of_the_certificates_alone(tmp_path: Path) -> None:
    """Not of their order, of remarks, of repetition."""
    one, two = (Authority(tmp_path / name, name).certificate.read_bytes() for name in ("one", "two"))
    assert len(bundle.certificates(one + two)) == 2
    assert bundle.digest(one + two) == bundle.digest(b"# roots of 2027\n" + two + b"\n\n" + one + two)
    assert len({bundle.digest(each) for each in (one, two, one + two)}) == 3


def test_a_bundle_with_one_bad_certificate_is_bad(tmp_path: Path) -> None:
    good = Authority(tmp_path, "one").certificate.read_bytes()
    frame = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----\n"
    wrongs = {
        "holds no certificate": b"",
        "cut off": good + good[:-30],
        "certificate 2 of 2 cannot be read": good + frame % b"AAAA",
        "certificate 1 of 1 cannot be read": frame % b"A",
        "more than 32": good * 33,
        "larger than": good + b"#" * bundle.BYTES_MAX,
    }
    for sentence, content in wrongs.items():
        with pytest.raises(ValueError, match=sentence):
            bundle.digest(content)
