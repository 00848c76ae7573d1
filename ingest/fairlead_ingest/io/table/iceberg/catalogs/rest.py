"""Services with Iceberg's REST API, with a token, or with OAuth2 (client credentials).

The library asks for a new token when the service refuses the old one, and then asks the same once more.  It waits for
ever for an answer, takes properties of the service for its own, and follows an answer to another address with all it
carries: none of that here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import requests
from pyiceberg import exceptions
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from requests.adapters import HTTPAdapter

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.io.table.iceberg.catalogs import secret_file
from fairlead_ingest.table import catalog as names
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Storage

CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 30
_TOKENS: Final = "v1/oauth/tokens"
_CHOSEN_BY_THE_SERVICE: Final = frozenset({"prefix", "namespace-separator", "rest-page-size", "uri"})
"""Of its properties; all others are about how files are read, which is not its to say, or do not concern us."""


class _Http(HTTPAdapter):
    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        options["timeout"] = (CONNECT_SECONDS, REQUEST_SECONDS)
        answer = super().send(request, *args, **options)
        if answer.status_code == HTTPStatus.NOT_IMPLEMENTED:
            raise exceptions.BadRequestError(f"{request.method} {request.path_url}: it has no such thing (501)")
        return answer


class _Rest(RestCatalog):
    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._own = {**_properties(catalog), **file_io.properties(storage)}
        super().__init__(catalog.name, **self._own)

    def _config_headers(self, session: requests.Session) -> None:
        """The first that is done with a session, before a token is asked for by it."""
        super()._config_headers(session)
        session.trust_env = False
        session.max_redirects = 0
        for scheme in ("https://", "http://"):
            session.mount(scheme, _Http())

    def _fetch_config(self) -> None:
        super()._fetch_config()
        said = {key: value for key, value in self.properties.items() if key in _CHOSEN_BY_THE_SERVICE}
        self.properties = {**self._own, **said}
        try:
            names.check_uri("rest", self.uri)
        except ValueError as error:
            raise errors.Stop(errors.CATALOG_UNFIT, f"[catalog] {self._own['uri']} says that its uri {error}") from None

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return file_io.of_table(self.properties, properties)


def connect(catalog: Catalog, storage: Storage) -> RestCatalog:
    """Raises ``Stop`` and what ``failures`` explains."""
    return _Rest(catalog, storage)


def _properties(catalog: Catalog) -> dict[str, Any]:
    found: dict[str, Any] = {
        "uri": catalog.uri,
        "warehouse": catalog.warehouse,
        "token": secret_file.read("token_file", catalog.token_file),
        "credential": secret_file.read("credential_file", catalog.credential_file),
        "oauth2-server-uri": catalog.oauth2_uri or f"{catalog.uri.rstrip('/')}/{_TOKENS}",
        "scope": catalog.oauth2_scope,
        "ssl": None if catalog.tls_ca is None else {"cabundle": catalog.tls_ca},
        # Tasks write with the job's own credentials; those that a catalog may lend end within the hour.
        "header.X-Iceberg-Access-Delegation": "",
    }
    return {key: value for key, value in found.items() if value is not None}
