"""The table ``[catalog]`` of an ingest job's settings: where its Iceberg tables are known by name."""

from __future__ import annotations

from typing import Literal, Self

import pydantic

from fairlead_ingest.table import catalog
from fairlead_ingest.table.catalog import NAME_DEFAULT, Catalog
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model


class CatalogSettings(Model):
    """The catalog of tables with `table_format = "iceberg"`. No secret is in this file: `password_file`, `token_file`,
    `credential_file`, or in the environment what the database's own client takes (`PGPASSWORD`)."""

    type: Literal["sql", "rest"] = "sql"
    """`sql`: a database (SQLite on one machine, PostgreSQL for several), `rest`: a service with Iceberg's REST API
    (Polaris, Lakekeeper, Nessie, Gravitino, Unity, …)."""
    uri: str = ""
    """Its address: `sqlite:////var/lib/fairlead/catalog.db`, `postgresql+psycopg://user@host/database`, or
    `https://` of the service (`http://` on loopback only). Required with `table_format = "iceberg"`."""
    name: str = NAME_DEFAULT
    """Of a `sql` catalog: the name its rows carry; readers give the same one."""
    namespace: str = NAME_DEFAULT
    """Where the tables are in the catalog; made if it is not there. The last part of `table` is the table's name."""
    warehouse: str | None = None
    """Of a `rest` catalog that has several warehouses: which one."""
    password_file: FilePath | None = None
    """File with the password of the database's user."""
    token_file: FilePath | None = None
    """File with a bearer token for a `rest` catalog, read again whenever the catalog is opened."""
    credential_file: FilePath | None = None
    """File with `client-id:client-secret` for a `rest` catalog that gives tokens by OAuth2."""
    oauth2_uri: str | None = None
    """Who gives those tokens; absent: the catalog itself."""
    oauth2_scope: str | None = pydantic.Field(default=None, min_length=1, max_length=1024, pattern=r"^[!#-\[\]-~ ]+$")
    """What is asked for with `credential_file`, such as `PRINCIPAL_ROLE:ALL` for Polaris; absent: `catalog`."""
    tls_ca: FilePath | None = None
    """Authority that a `rest` catalog's certificate comes from, where the system does not know it."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(list(self._wrong()))
        return self

    def _wrong(self) -> list[Mistake]:
        found = []
        for key, text in (("uri", self.uri), ("oauth2_uri", self.oauth2_uri or "")):
            try:
                if text:
                    catalog.check_uri(self.type if key == "uri" else "rest", text)
            except ValueError as error:
                found.append(Mistake(key, str(error)))
        try:
            catalog.check_namespace(self.namespace)
        except ValueError as error:
            found.append(Mistake("namespace", str(error)))
        of_rest = ("token_file", "credential_file", "oauth2_uri", "oauth2_scope", "warehouse")
        others = ("password_file",) if self.type == "rest" else of_rest
        found += [
            Mistake(key, f'belongs to a catalog of another type, not to type = "{self.type}"')
            for key in others
            if getattr(self, key) is not None
        ]
        return found

    def catalog(self) -> Catalog | None:
        """None where none is named."""
        return Catalog(**self.model_dump()) if self.uri else None
