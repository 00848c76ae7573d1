"""Signer ``cert-manager``: creates a CertificateRequest in the hub's namespace and follows it until it is answered.

    create (or find the same) ─▶ read ─▶ watch this one ─▶ Ready, Denied, InvalidRequest, Failed, or timeout

A request that is not answered in time is used when the device asks again: it stays, under the name of the recorded
serial number.  The hub approves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_hub.identity import certificate_request
from fairlead_hub.identity.signer import Authority, CertificateTemplate, SignedCertificate, SignerUnavailable
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import Kube
from fairlead_wire.errors import Malformed

ANSWER_SECONDS: Final = 30.0
WATCH_SECONDS: Final = 30
AGAIN_SECONDS: Final = 0.5
WAIT_RETRY_SECONDS: Final = 10.0


class _WatchLine(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


_line = msgspec.json.Decoder(_WatchLine)


class CertManagerSigner:
    """``issuer`` as in the settings; ``trusted``: authorities (DER) that the link trusts now."""

    takes_names = True

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        issuer: str,
        trusted: Callable[[], list[bytes]] = list,
        seconds_left: Callable[[], float],
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._kube, self._issuer, self._trusted = kube, issuer, trusted
        self._seconds_left, self._answer_seconds = seconds_left, answer_seconds
        self._root = f"apis/{certificate_request.GROUP}/v1/namespaces/{namespace}/certificaterequests"

    @property
    def authority(self) -> Authority:
        """Only the issuer knows which authority signs: without a name here, none counts as a different one."""
        return Authority(name="")

    async def sign(self, template: CertificateTemplate) -> SignedCertificate:
        """Raises ``SignerUnavailable``."""
        document: dict[str, Any] = {}
        try:
            async with asyncio.timeout(self._answer_seconds):
                document = await self._create(template)
                while (pem := certificate_request.answer(document)) is None:
                    document = await self._next(document)
        except TimeoutError:
            name, why = certificate_request.name_of(template), certificate_request.waits_for(document)
            reason = f"cert-manager has not answered {name} within {self._answer_seconds:g} s: {why}"
            raise SignerUnavailable(reason, retry_after_seconds=WAIT_RETRY_SECONDS) from None
        except ApiRefused as error:
            raise SignerUnavailable(f"{_explained(error)}", retry_after_seconds=60.0) from None
        except (ApiUnavailable, Malformed, msgspec.DecodeError) as error:
            raise SignerUnavailable(f"cert-manager cannot be reached: {error}") from None
        return certificate_request.issued(pem, template, self._trusted())

    async def _create(self, template: CertificateTemplate) -> dict[str, Any]:
        wanted = certificate_request.body(template, self._issuer)
        try:
            answer = await self._kube.request("POST", self._root, wanted, seconds=self._seconds_left())
        except ApiRefused as error:
            if error.status != 409:
                raise
            answer = await self._kube.get(f"{self._root}/{certificate_request.name_of(template)}")
        document = api_json.document(answer)[0]
        if not certificate_request.is_same(document, template):
            reason = f"a CertificateRequest {certificate_request.name_of(template)} exists with different content"
            raise SignerUnavailable(f"{reason}: delete it")
        return document

    async def _next(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document after its next change."""
        header = api_json.header_of(document)
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={header.name}",
            "resourceVersion": header.version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        lines = self._kube.lines(self._root, params, 2.0 * WATCH_SECONDS)
        with contextlib.suppress(ApiUnavailable):
            async with contextlib.aclosing(lines):
                async for line in lines:
                    found = _line.decode(line)
                    if found.type in ("ADDED", "MODIFIED"):
                        return api_json.document(found.object)[0]
                    break
        await asyncio.sleep(AGAIN_SECONDS)
        return api_json.document(await self._kube.get(f"{self._root}/{header.name}"))[0]


def _explained(error: ApiRefused) -> str:
    match error.status:
        case 404:
            return "cert-manager is not installed here, or its request was deleted: kubectl get crd | grep cert-manager"
        case 403:
            remedy = "grant the hub's account create, get and watch on certificaterequests in its namespace"
            return f"access to cert-manager is denied ({error}): {remedy}"
    return f"cert-manager refuses the request: {error}"
