"""The address of a program that is asked over HTTP."""

from __future__ import annotations

import click
import pytest

from fairlead_cli.parameters import Url


def test_an_address_loses_its_last_slash() -> None:
    assert Url().convert("https://host:1/", None, None) == "https://host:1"


def test_another_is_refused_without_what_may_be_a_password() -> None:
    with pytest.raises(click.BadParameter, match=r"must be http://host:port, is 's3://bucket:\[secret\]'"):
        Url().convert("s3://bucket:hunter2/t", None, None)
