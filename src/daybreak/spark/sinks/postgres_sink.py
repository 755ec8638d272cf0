"""PostgreSQL as a sink: append, or upsert by key, exactly once.

One transaction writes the rows of a job and the number of the delivery. A delivery that comes again
after a crash finds its number and changes nothing. The number is written first: a transaction that
a killed process has left behind on the server holds its row, and the repetition waits for it.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from daybreak.extras import need_package
from daybreak.model.errors import ConfigError
from daybreak.model.secrets import keep, without_secrets
from daybreak.spark.failures import SinkUnavailable
from daybreak.spark.sinks.destination import DeclaredSink, DeliveryId, Destination
from daybreak.spark.sinks.postgres_table import DELIVERIES, TableCheck, columns_of, quoted
from daybreak.spark.sinks.postgres_types import (
    as_csv_columns,
    column_ddl,
    refuse_long_texts,
    refuse_unstorable,
)
from daybreak.spark.sinks.refusals import refuse_null_keys
from daybreak.spark.sinks.text_formats import write_csv

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_DELIVERIES_DDL = (
    "source text PRIMARY KEY, number bigint NOT NULL, job text NOT NULL, "
    "at timestamptz NOT NULL DEFAULT now()"
)
#: Serialises the creation of tables among drivers; any number that nobody else uses.
_LOCK = 0x6461_7962
_CONNECT_S = 10
_VARIABLES = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\})+")


class UpsertAmbiguous(Exception):
    """Rows of one job have the same key, and nothing says which of them is the newest."""


class PostgresDestination(Destination):
    """A table of a PostgreSQL database."""

    options = ("url", "table", "key", "newest", "create")
    exactly_once = True

    def __init__(self, declared: DeclaredSink) -> None:
        super().__init__(declared)
        need_package("psycopg", "postgres", declared.place)
        self._url = declared.need("url", "postgresql://user@host/database")
        self._refuse_password()
        self._table = tuple(declared.need("table", "public.fires").split("."))
        if not all(self._table) or len(self._table) > 2:
            raise declared.error(
                f"table {declared.options['table']!r}", 'give "table" or "schema.table"'
            )
        self._key = self._columns("key")
        self._newest = self._columns("newest")
        if self._newest and (
            not self._key or len(self._newest) > 1 or self._newest[0] in self._key
        ):
            raise declared.error(
                f"newest {declared.options['newest']!r}",
                "give one column by which rows of the same key are ordered, and that key",
            )
        self._create = declared.flag("create")
        #: How many characters columns of texts take.
        self._longest: dict[str, int] = {}
        self._connection: psycopg.Connection[Any] | None = None

    def check(self) -> None:
        import psycopg

        try:
            connection = self._connect()
        except psycopg.Error as error:
            raise self._no_connection(error) from None
        try:
            with connection:
                table = TableCheck(self.declared, connection, self._table, self._key)
                self._longest = table.check(None if self._create else self._ddl())
        except psycopg.Error as error:
            finding = f"table {self._name()} cannot be looked at ({_line(error)})"
            raise self.declared.error(finding, "correct the table, or the user's rights") from None

    def accept(self, rows: pa.Table) -> None:
        refuse_unstorable(rows)
        refuse_long_texts(rows, self._longest)
        refuse_null_keys(rows, self._key)

    def write(self, rows: pa.Table, delivery: DeliveryId) -> None:
        import psycopg

        try:
            connection = self._open()
            with connection.transaction():
                if _is_new(connection, self._deliveries(), delivery):
                    self._insert(connection, rows)
        except psycopg.errors.CardinalityViolation:
            raise UpsertAmbiguous(
                f"several rows of one job have the same {', '.join(self._key)}; "
                "give newest, the column that says which of them counts"
            ) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise self._unavailable(error) from None

    def has(self, delivery: DeliveryId) -> bool:
        import psycopg
        from psycopg import sql

        try:
            connection = self._open()
            found = connection.execute(
                sql.SQL("SELECT number FROM {} WHERE source = %s").format(self._deliveries()),
                (delivery.source,),
            ).fetchone()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise self._unavailable(error) from None
        return found is not None and found[0] >= delivery.number

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # What is declared

    def _columns(self, option: str) -> tuple[str, ...]:
        """Columns of the query that an option names."""
        names = tuple(n.strip() for n in self.declared.options.get(option, "").split(",") if n)
        schema = self.declared.schema
        for name in names:
            if schema is not None and name not in schema.names:
                raise self.declared.error(
                    f"{option} {name!r} is not one of its columns",
                    f"choose from {', '.join(schema.names)}",
                )
        return names

    def _refuse_password(self) -> None:
        """A password in the file would be in the record of every run."""
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict

        if not self._url.startswith(("postgresql://", "postgres://")):
            raise self.declared.error("url is not one of PostgreSQL", "postgresql://host/database")
        raw = self.declared.raw_options.get("url", self._url)
        try:
            written = {} if _VARIABLES.fullmatch(raw) else conninfo_to_dict(raw)
            parts = conninfo_to_dict(self._url)
        except Error as error:
            raise self.declared.error(
                f"url cannot be read ({_line(error)})", "postgresql://user@host:5432/database"
            ) from None
        keep(str(parts.get("password") or ""))
        password = str(written.get("password") or "")
        if password and not _VARIABLES.fullmatch(password):
            keep(password)
            raise self.declared.error(
                "url holds a password in plain text",
                "take it from the environment (postgresql://user:${PGPASS}@host/database), "
                "PGPASSWORD or ~/.pgpass",
            )

    # Connections and their errors

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        limit_ms = max(1, round(self.declared.limit_s * 1000))
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            application_name=f"daybreak {self.declared.query}"[:63],
            options=f"-c statement_timeout={limit_ms} -c timezone=UTC",
        )

    def _open(self) -> psycopg.Connection[Any]:
        """The connection, with what it needs."""
        if self._connection is None or self._connection.closed:
            connection = self._connect()
            try:
                self._make_tables(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _make_tables(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if not columns_of(connection, (*self._table[:-1], DELIVERIES)):
                ddl = sql.SQL("CREATE TABLE {} (" + _DELIVERIES_DDL + ")")
                connection.execute(ddl.format(self._deliveries()))
            if self._create and not columns_of(connection, self._table):
                connection.execute(self._ddl())  # of quoted names
        if self._key:
            # Once per connection: a table for every job would bloat the catalog.
            connection.execute(
                sql.SQL(
                    "CREATE TEMP TABLE daybreak_rows ON COMMIT DELETE ROWS AS "
                    "SELECT {} FROM {} WITH NO DATA"
                ).format(_listed(self._names()), self._identifier())
            )

    def _no_connection(self, error: Exception) -> ConfigError:
        text = _line(error)
        if "does not exist" in text and "database" in text:
            remedy = "create the database (createdb NAME), or correct url"
        elif "password" in text or "authentication" in text:
            remedy = "check the user; the password comes from url, PGPASSWORD or ~/.pgpass"
        else:
            remedy = "start PostgreSQL, or correct url"
        return self.declared.error(f"cannot connect ({text})", remedy)

    def _unavailable(self, error: Exception) -> SinkUnavailable:
        return SinkUnavailable(
            f"table {self._name()} takes no rows ({_line(error)}); results are kept and written "
            "when PostgreSQL answers again"
        )

    # The table

    def _name(self) -> str:
        return ".".join(self._table)

    def _identifier(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self._table)

    def _deliveries(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self._table[:-1], DELIVERIES)

    def _names(self) -> list[str]:
        schema = self.declared.schema
        return [] if schema is None else list(schema.names)

    def _ddl(self) -> str:
        """What makes the table."""
        schema = self.declared.schema or pa.schema([])
        parts = [f"{quoted(field.name)} {column_ddl(field.type)}" for field in schema]
        if self._key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self._key))})")
        return f"CREATE TABLE {quoted(*self._table)} ({', '.join(parts)})"

    def _insert(self, connection: psycopg.Connection[Any], rows: pa.Table) -> None:
        from psycopg import sql

        names = list(rows.column_names)
        into = sql.Identifier("daybreak_rows") if self._key else self._identifier()
        encoded = io.BytesIO()
        write_csv(as_csv_columns(rows), encoded, header=False, delimiter=",")
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(into, _listed(names))
        with connection.cursor() as cursor:
            with cursor.copy(copy) as out:
                out.write(encoded.getvalue())
            if self._key:
                cursor.execute(self._upsert(names))

    def _upsert(self, names: list[str]) -> sql.Composed:
        """Rows of the same key: the newest of the job, and only if the table's is not newer."""
        from psycopg import sql

        parts = {
            "table": self._identifier(),
            "columns": _listed(names),
            "key": _listed(self._key),
            "changes": sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name))
                for name in names
                if name not in self._key
            ),
        }
        changes = "DO UPDATE SET {changes}" if len(names) > len(self._key) else "DO NOTHING"
        if not self._newest:
            text = "INSERT INTO {table} AS kept ({columns}) SELECT {columns} FROM daybreak_rows "
            return sql.SQL(text + "ON CONFLICT ({key}) " + changes).format(**parts)
        text = (
            "INSERT INTO {table} AS kept ({columns}) "  # noqa: S608  # names are quoted
            "SELECT DISTINCT ON ({key}) {columns} FROM daybreak_rows "
            "ORDER BY {key}, {newest} DESC NULLS LAST "
            "ON CONFLICT ({key}) " + changes + " "
            "WHERE kept.{newest} IS NULL OR excluded.{newest} >= kept.{newest}"
        )
        return sql.SQL(text).format(**parts, newest=sql.Identifier(self._newest[0]))


def _is_new(
    connection: psycopg.Connection[Any], deliveries: sql.Identifier, delivery: DeliveryId
) -> bool:
    """Stores the delivery's number; False if that or a later one is there."""
    from psycopg import sql

    stored = connection.execute(
        sql.SQL(
            "INSERT INTO {} AS kept (source, number, job) VALUES (%s, %s, %s) "
            "ON CONFLICT (source) DO UPDATE SET number = excluded.number, job = excluded.job, "
            "at = now() WHERE kept.number < excluded.number"
        ).format(deliveries),
        (delivery.source, delivery.number, delivery.job),
    )
    return stored.rowcount == 1


def _listed(names: list[str] | tuple[str, ...]) -> sql.Composed:
    from psycopg import sql

    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _line(error: Exception) -> str:
    """The beginning of a driver's message in one line, without secrets."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return without_secrets(" ".join(lines[:3]))
