"""Who may look at the console, and the headers of every answer.

The console answers where ``/v1/…`` answers: on loopback to all programs of the machine (``kubectl port-forward`` too),
elsewhere to certificates of ``tls_ca``.  A page is asked for by a browser, so the rule for browsers (decision 0502) is
checked here with one exception: a link that a person follows may stand on another site's page.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_wire.http import browser

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types console",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def refusal(headers: Mapping[str, str], *, secure: bool) -> str:
    """Why a request with these headers is not answered; empty when it is.  ``secure``: it came with a certificate."""
    followed = _is_followed_link(headers)
    if not secure:
        return browser.refusal(_Without(headers) if followed else headers)
    # The name is that of the certificate; but a browser shows its certificate for any page that asks.
    if browser.is_cross_origin(headers.get("Origin"), headers.get("Host", "")):
        return "another origin's page has no business here"
    if not followed and headers.get("Sec-Fetch-Site", "none") not in browser.OWN_SITE:
        return "another site's page has no business here"
    return ""


def _is_followed_link(headers: Mapping[str, str]) -> bool:
    """A person follows a link, in a window of its own right: the page that has the link sees nothing of the answer."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"


class _Without(dict[str, str]):
    """The headers but for the site; the host is checked as ever."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__({key: headers[key] for key in ("Host", "Origin") if key in headers})
