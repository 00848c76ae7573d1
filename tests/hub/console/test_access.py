"""Who may look."""

import pytest

from fairlead_hub.console import pages

LOCAL = {"Host": "127.0.0.1:10002"}


@pytest.mark.parametrize(
    ("headers", "secure", "answered"),
    [
        ({}, False, True),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, False, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:10002"}, False, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, False, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, False, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, False, False),
        ({"Sec-Fetch-Site": "same-site"}, False, False),
        ({"Origin": "https://evil.example"}, False, False),
        ({"Host": "evil.example:10002"}, False, False),
        (
            {
                "Host": "evil.example",
                "Sec-Fetch-Site": "none",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            False,
            False,
        ),
        ({"Host": "hub.example"}, True, True),
        ({"Host": "hub.example", "Origin": "https://hub.example"}, True, True),
        ({"Host": "hub.example", "Origin": "https://evil.example"}, True, False),
        ({"Host": "hub.example", "Origin": "https://["}, True, False),
        ({"Host": "hub.example", "Sec-Fetch-Site": "cross-site"}, True, False),
    ],
)
def test_pages_of_others_are_refused_and_links_are_followed(headers, secure, answered):
    """The rule for browsers, with its one exception; a name bound to loopback is refused in every case."""
    assert (pages.refusal({**LOCAL, **headers}, secure=secure) == "") is answered


def test_nothing_may_be_loaded_from_elsewhere_and_no_text_becomes_script():
    """The policy names no host, no inline script and no inline style."""
    policy = pages.HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
