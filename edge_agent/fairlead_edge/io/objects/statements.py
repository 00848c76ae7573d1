"""Every SQL statement of the object store, by name.  The tables are in ``schema``.

An object is found by (group, plural, namespace, name); objects that are damaged are found by their row's number, for
nothing else of them is certain.  Text is read as bytes (``CAST(… AS BLOB)``): damaged, it may be no text any more.
"""

from __future__ import annotations

from typing import Final, Literal

Table = Literal["objects", "fallbacks"]
"""A table of objects; they have the same columns."""
TABLES_OF_OBJECTS: Final[tuple[Table, ...]] = ("objects", "fallbacks")
"""Both."""

_TEXTS: Final = ("api_group", "plural", "namespace", "name", "version", "uid", "digest", "resource_version")
_COLUMNS: Final = f"{', '.join(_TEXTS)}, local_version, stored_at, content, checksum"
_ROW: Final = (
    f"rowid, {', '.join(f'CAST({name} AS BLOB)' for name in _TEXTS)}, local_version, stored_at, content, checksum"
)
"""What ``schema.held`` takes."""
_BY_KEY: Final = "WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"

# ---- objects -------------------------------------------------------------------------------------------------------

OBJECT: Final = f"SELECT {_ROW} FROM objects {_BY_KEY}"
"""One object."""
_OF_TYPE: Final = "FROM objects WHERE api_group = ? AND plural = ? AND (namespace, name) > (?, ?)"
OBJECTS: Final = f"SELECT {_ROW} {_OF_TYPE} ORDER BY namespace, name"
"""Objects of a type above a (namespace, name)."""
OBJECTS_OF_NAMESPACE: Final = f"SELECT {_ROW} {_OF_TYPE} AND namespace = ? ORDER BY namespace, name"
"""Those of one namespace."""
COUNT_OF_TYPE: Final = f"SELECT count(*) {_OF_TYPE} AND version = ? AND ifnull(namespace = ?, 1)"
"""How many there are of one version; the namespace NULL: of all."""
FALLBACKS: Final = f"SELECT {_ROW} FROM fallbacks WHERE api_group = ? AND plural = ? ORDER BY namespace, name"
"""The newest usable versions of objects whose held version is not."""
COUNT: Final = "SELECT count(*) FROM objects"
"""How many are held."""
DIGESTS: Final = "SELECT uid, digest FROM objects"
"""What sums are made of; an index has it."""
UIDS: Final = "SELECT rowid, uid FROM objects"
"""From which the bucket of each row follows."""
INSERT_OBJECT: Final = f"INSERT INTO objects ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
"""Values as ``schema.values`` gives them."""
REPLACE_OBJECT: Final = (
    "UPDATE objects SET version = ?, uid = ?, digest = ?, resource_version = ?, local_version = ?, "
    f"stored_at = ?, content = ?, checksum = ? {_BY_KEY}"
)
"""Another content under the same name."""
SET_RESOURCE_VERSION: Final = f"UPDATE objects SET resource_version = ?, checksum = ? {_BY_KEY}"
"""The same content at another version of the cluster."""
SET_LOCAL_VERSION: Final = f"UPDATE objects SET local_version = ?, checksum = ? {_BY_KEY}"
"""The same content, with another status reported of it."""
UID_OF_OBJECT: Final = f"SELECT uid FROM objects {_BY_KEY}"
"""Is it the one that a status was reported of?"""
DELETE_OBJECT: Final = f"DELETE FROM objects {_BY_KEY}"
"""It was deleted in the cluster, or is for this node no longer."""
DELETE_FALLBACK: Final = f"DELETE FROM fallbacks {_BY_KEY}"
"""The held version is usable again, or gone."""
KEEP_AS_FALLBACK: Final = f"INSERT INTO fallbacks ({_COLUMNS}) SELECT {_COLUMNS} FROM objects {_BY_KEY}"
"""Before the object is replaced by a version that is not usable."""

# ---- rows by number, for scrubs and salvage ------------------------------------------------------------------------


def row(table: Table) -> str:
    """One row."""
    return f"SELECT {_ROW} FROM {table} WHERE rowid = ?"


def rows_above(table: Table) -> str:
    """The next rows above a number."""
    return f"SELECT {_ROW} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"


def all_rows(table: Table) -> str:
    """Every row."""
    return f"SELECT {_ROW} FROM {table}"


def delete_row(table: Table) -> str:
    """A row the disk changed."""
    return f"DELETE FROM {table} WHERE rowid = ?"


def delete_type(table: Table) -> str:
    """All objects of a type."""
    return f"DELETE FROM {table} WHERE api_group = ? AND plural = ?"


# ---- facts ---------------------------------------------------------------------------------------------------------

FACT: Final = "SELECT value, checksum FROM facts WHERE name = ?"
"""One fact: node, fence, stale_hub_since, stale_hub_highest, version, contact_at, lacking."""
SET_FACT: Final = (
    "INSERT INTO facts(name, value, checksum) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)
"""Write a fact over."""

DELETE_FACT: Final = "DELETE FROM facts WHERE name = ?"
"""A status whose object is gone."""
FACTS_WITHIN: Final = "SELECT name, value, checksum FROM facts WHERE name >= ? AND name < ? ORDER BY name"
"""Those whose names begin alike."""
FACTS_SIZE: Final = "SELECT count(*), sum(length(value)) FROM facts WHERE name >= ? AND name < ? AND name != ?"
"""How many of them, and their bytes, without one."""

# ---- kinds ---------------------------------------------------------------------------------------------------------

KINDS: Final = "SELECT api_group, version, plural, kind, namespaced FROM kinds"
"""Every kind ever held."""
KIND: Final = "SELECT CAST(kind AS BLOB), namespaced FROM kinds WHERE api_group = ? AND version = ? AND plural = ?"
"""What is known of one type."""
SET_KIND: Final = "INSERT OR REPLACE INTO kinds VALUES (?,?,?,?,?)"
"""Group, version, plural, kind, namespaced."""
FORGET_KIND: Final = "DELETE FROM kinds WHERE api_group = ? AND plural = ?"
"""As if it had never been held."""
DELETE_UNREADABLE_KINDS: Final = (
    "DELETE FROM kinds WHERE typeof(api_group) != 'text' OR typeof(version) != 'text' OR typeof(plural) != 'text'"
    " OR typeof(kind) != 'text' OR namespaced NOT IN (0, 1)"
)
"""A column of another type than was written."""
KIND_TEXTS: Final = (
    "SELECT CAST(api_group AS BLOB), CAST(version AS BLOB), CAST(plural AS BLOB), CAST(kind AS BLOB) FROM kinds"
)
"""To find those that are no names."""
DELETE_KIND: Final = (
    "DELETE FROM kinds WHERE CAST(api_group AS BLOB) = ? AND CAST(version AS BLOB) = ? AND CAST(plural AS BLOB) = ?"
)
"""A kind that is no name."""
