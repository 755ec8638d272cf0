"""A table of PostgreSQL before rows go there: whether it can take them. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daybreak.spark.sinks.destination import DeclaredSink
from daybreak.spark.sinks.postgres_types import column_ddl, longest_text, mismatch

if TYPE_CHECKING:
    import psycopg

#: Table with the number of the last delivery of each query, beside the tables of the rows.
DELIVERIES = "daybreak_deliveries"


@dataclass(frozen=True)
class TableColumn:
    """A column of a table in PostgreSQL."""

    type: str
    required: bool
    #: The type with its limits, such as ``numeric(10,2)``.
    limited: str


@dataclass(frozen=True)
class TableCheck:
    """Compares a declared sink with the database."""

    declared: DeclaredSink
    connection: psycopg.Connection[Any]
    #: Its name, behind that of its schema where one is given.
    table: tuple[str, ...]
    key: tuple[str, ...]

    def check(self, ddl: str | None) -> dict[str, int]:
        """``ConfigError`` if rows cannot be written; how long texts may be, by column.

        ``ddl``: what makes a missing table; None: the sink makes it by itself.
        """
        schema = self._check_schema()
        found = columns_of(self.connection, self.table)
        missing = [] if found else [self._name()]
        if found:
            self._check_columns(found)
            self._check_key()
            self._check_rights(list(found))
        elif ddl is not None:
            raise self.declared.error(
                f"table {self._name()} does not exist", f"create it ({ddl}), or give create = true"
            )
        if not columns_of(self.connection, self._deliveries()):
            missing.append(".".join(self._deliveries()))
        else:
            self._need(self._deliveries(), ("SELECT", "INSERT", "UPDATE"))
        if missing and not self._one("SELECT has_schema_privilege(%s, 'CREATE')", schema):
            raise self.declared.error(
                f"user {self._user()} may not create {' and '.join(missing)} in schema {schema!r}",
                f"GRANT CREATE ON SCHEMA {quoted(schema)} TO {quoted(self._user())}, or create "
                "them as another user and grant SELECT, INSERT and UPDATE",
            )
        longest = {name: longest_text(column.limited) for name, column in found.items()}
        return {name: length for name, length in longest.items() if length is not None}

    def _name(self) -> str:
        return ".".join(self.table)

    def _deliveries(self) -> tuple[str, ...]:
        return (*self.table[:-1], DELIVERIES)

    def _one(self, statement: str, *values: object) -> Any:
        row = self.connection.execute(statement.encode(), values).fetchone()
        assert row is not None
        return row[0]

    def _user(self) -> str:
        return str(self._one("SELECT current_user"))

    def _check_schema(self) -> str:
        """The schema, which is there and may be looked into."""
        if len(self.table) == 1:
            found = self._one("SELECT current_schema()")
            if found is None:
                raise self.declared.error(
                    f"table {self._name()} is in no schema: none of search_path exists",
                    'give "schema.table", or CREATE SCHEMA public',
                )
            return str(found)
        schema = self.table[0]
        if not self._one("SELECT count(*) FROM pg_namespace WHERE nspname = %s", schema):
            raise self.declared.error(
                f"schema {schema!r} does not exist",
                f"CREATE SCHEMA {quoted(schema)}, or correct table",
            )
        if not self._one("SELECT has_schema_privilege(%s, 'USAGE')", schema):
            raise self.declared.error(
                f"user {self._user()} may not use schema {schema!r}",
                f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(self._user())}",
            )
        return schema

    def _check_rights(self, known: list[str]) -> None:
        """Upserts read the key, and may change every other column."""
        schema = self.declared.schema
        for name in known if schema is None else schema.names:
            self._need_column(name, "INSERT")
            if self.key:
                self._need_column(name, "SELECT")
            if self.key and name not in self.key:
                self._need_column(name, "UPDATE")

    def _need_column(self, column: str, right: str) -> None:
        statement = "SELECT has_column_privilege(to_regclass(%s), %s, %s)"
        if not self._one(statement, quoted(*self.table), column, right):
            raise self._missing_right(self.table, right)

    def _need(self, table: tuple[str, ...], rights: tuple[str, ...]) -> None:
        for right in rights:
            statement = "SELECT has_table_privilege(to_regclass(%s), %s)"
            if not self._one(statement, quoted(*table), right):
                raise self._missing_right(table, right)

    def _missing_right(self, table: tuple[str, ...], right: str) -> Exception:
        return self.declared.error(
            f"user {self._user()} has no right to {right} on table {'.'.join(table)}",
            f"GRANT SELECT, INSERT, UPDATE ON {quoted(*table)} TO {quoted(self._user())}",
        )

    def _check_columns(self, found: Mapping[str, TableColumn]) -> None:
        name = self._name()
        for field in self.declared.schema or ():
            column = found.get(field.name)
            wanted = column_ddl(field.type)
            if column is None:
                raise self.declared.error(
                    f"table {name} has no column {field.name!r}",
                    f"ALTER TABLE {name} ADD COLUMN {quoted(field.name)} {wanted}, or rename it",
                )
            if (why := mismatch(field.type, column.type, column.limited)) is not None:
                raise self.declared.error(
                    f"column {field.name!r} of table {name} is {column.limited}, and {why}",
                    f"make it {wanted}, or cast it in the query",
                )
        if self.declared.schema is None:
            return
        for other, column in found.items():
            if column.required and other not in self.declared.schema.names:
                raise self.declared.error(
                    f"table {name} needs a value for {other!r}, which the query does not give",
                    "select it, give the column a default, or drop its NOT NULL",
                )

    def _check_key(self) -> None:
        if not self.key:
            return
        found = self.connection.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
            "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL "
            "GROUP BY i.indexrelid",
            (quoted(*self.table),),
        ).fetchall()
        if not any(set(columns) == set(self.key) for (columns,) in found):
            key = ", ".join(self.key)
            raise self.declared.error(
                f"table {self._name()} has no unique index on its key ({key})",
                f"CREATE UNIQUE INDEX ON {self._name()} ({key})",
            )


def columns_of(
    connection: psycopg.Connection[Any], table: tuple[str, ...]
) -> dict[str, TableColumn]:
    """The columns of a table; nothing if there is no such table."""
    found = connection.execute(
        "SELECT attname, format_type(atttypid, NULL), "
        "attnotnull AND NOT atthasdef AND attidentity = '', format_type(atttypid, atttypmod) "
        "FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (quoted(*table),),
    ).fetchall()
    return {name: TableColumn(*about) for name, *about in found}


def quoted(*name: str) -> str:
    """A name as SQL writes it, part by part."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)
