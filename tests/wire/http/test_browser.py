"""Web pages are no local programs."""

import pytest

from fairlead_wire.http import browser


@pytest.mark.parametrize("host", ["", "localhost", "localhost:10550", "127.0.0.1:10550", "[::1]:10550", "10.1.2.3"])
def test_programs_are_answered(host):
    """curl, kubectl and clients of ours ask for an address or for localhost, and name no origin."""
    assert browser.refusal({"Host": host} if host else {}) == ""


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:10550", "localhost.evil.example", "127.0.0.1.evil.example", "[", "a b", "::1"],
)
def test_a_name_that_was_bound_to_loopback_is_refused(host):
    """DNS rebinding: the page's own name suddenly means this machine."""
    assert browser.refusal({"Host": host})


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[x"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_is_refused(headers):
    """Its browser says whose it is; also for requests it sends without asking first."""
    assert browser.refusal({"Host": "127.0.0.1:10550", **headers})


def test_a_page_that_came_from_here_is_answered():
    headers = {"Host": "127.0.0.1:10550", "Origin": "http://127.0.0.1:10550", "Sec-Fetch-Site": "same-origin"}
    assert browser.refusal(headers) == ""
    assert browser.refusal({"Host": "127.0.0.1:10550", "Sec-Fetch-Site": "none"}) == ""
