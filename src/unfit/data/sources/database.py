"""Rows from a database: a table or a query, streamed."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.sources import base
from unfit.data.sources.base import Location, Source, reading
from unfit.database_url import psycopg_url
from unfit.errors import BadInput

if TYPE_CHECKING:
    import sqlalchemy as sa

_BPCHAR = 1042  # the type's number in PostgreSQL


class DatabaseSource(Source):
    """A table or a query of a database that SQLAlchemy can reach."""

    schemes = ("sqlite", "postgresql", "postgres")
    ordered = False

    def __init__(self, url: str, table: str | None, query: str | None) -> None:
        import sqlalchemy as sa

        if (table is None) == (query is None):
            raise BadInput("a database needs either a table or a query")
        self.name = f"table {table}" if table else "the query"
        file = re.fullmatch(r"sqlite:///(.+?)(\?.*)?", url)
        if file and file[1] != ":memory:" and not Path(file[1]).is_file():
            raise BadInput(f"there is no database {file[1]}")
        try:
            self._engine = sa.create_engine(psycopg_url(url))
            if table is not None:
                schema, _, bare = table.rpartition(".")
                self._statement: sa.Executable = sa.select(
                    sa.Table(bare, sa.MetaData(), schema=schema or None, autoload_with=self._engine)
                )
            else:
                self._statement = sa.text(query or "")
            with self._engine.connect() as connection:
                result = connection.execution_options(stream_results=True).execute(self._statement)
                self._columns = [str(name) for name in list(result.keys())]
                result.close()
        except sa.exc.NoSuchTableError:
            raise BadInput(f"the database has no table {table}") from None
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            raise BadInput(f"cannot read {self.name}: {_first_line(error)}") from None
        base.check_names(self._columns, self.name)

    @classmethod
    def open(cls, location: Location) -> "DatabaseSource":
        if location.url is None:
            raise BadInput("the format 'sql' reads a database; give its URL")
        return cls(location.url, location.table, location.query)

    def columns(self) -> list[str]:
        return list(self._columns)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        import sqlalchemy as sa

        wanted = self._columns if columns is None else list(columns)
        at = [self._columns.index(name) for name in wanted]
        types: list[pa.DataType | None] = [None] * len(at)
        try:
            with reading(self.name), self._engine.connect() as connection:
                streaming = connection.execution_options(
                    stream_results=True, yield_per=base.BLOCK_ROWS
                )
                result = streaming.execute(self._statement)
                padded = _padded(result)
                for rows in result.partitions():
                    values = list(zip(*rows, strict=True))
                    arrays = []
                    for j, i in enumerate(at):
                        array = pa.array(values[i], from_pandas=True)
                        if i in padded and pa.types.is_string(array.type):
                            array = pc.utf8_rtrim(array, characters=" ")
                        known = types[j]
                        if known is None and not pa.types.is_null(array.type):
                            types[j] = array.type
                        elif known is not None and array.type != known:
                            array = array.cast(known)
                        arrays.append(array)
                    yield pa.RecordBatch.from_arrays(arrays, names=wanted)
        except sa.exc.SQLAlchemyError as error:
            raise BadInput(f"cannot read {self.name}: {_first_line(error)}") from None


def _padded(result: "sa.CursorResult") -> set[int]:
    """Columns of PostgreSQL's CHAR(n), which pads with blanks that mean nothing."""
    described = getattr(result.cursor, "description", None) or ()
    return {i for i, column in enumerate(described) if column[1] == _BPCHAR}


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:200]
