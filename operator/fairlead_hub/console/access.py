"""Who may see the console, and the headers of every answer.

The console is available where ``/v1/…`` is: on loopback to all programs of the machine (including ``kubectl
port-forward``), elsewhere to certificates of ``tls_ca``.  Pages are requested by browsers, so the rule for browsers
(decision 0502) is checked here with one exception: a link that a person follows may be on another site's page.
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
    """Why a request with these headers is refused; empty if it is allowed.  ``secure``: it came with a certificate."""
    followed = _is_followed_link(headers)
    if not secure:
        return browser.refusal(_Without(headers) if followed else headers)
    # The client is identified by its certificate, but a browser presents its certificate for any page that asks.
    if browser.is_cross_origin(headers.get("Origin"), headers.get("Host", "")):
        return "pages of other origins may not request this"
    if not followed and headers.get("Sec-Fetch-Site", "none") not in browser.OWN_SITE:
        return "pages of other sites may not request this"
    return ""


def _is_followed_link(headers: Mapping[str, str]) -> bool:
    """A person follows a link in a top-level window: the page with the link cannot read the answer."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"


class _Without(dict[str, str]):
    """The headers without the site header; the host is still checked."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__({key: headers[key] for key in ("Host", "Origin") if key in headers})
