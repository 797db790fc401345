"""Arrow streams from untrusted clients: their size is bounded before they are unpacked."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from unfit.service.problems import Problem

MAX_BYTES = 256_000_000  # of a decoded column
MAX_BATCHES = 1_000
MAX_CATEGORIES = 100_000  # in all dictionaries of a stream together
_DICTIONARY, _BATCH = 2, 3  # kinds of messages


def read(body: bytes, most: int) -> pa.Table:
    """A checked table of at most so many rows.

    A stream that is compressed, nested or too large is rejected by its headers, before anything is
    unpacked: a column of nulls has no bytes at all.
    """
    try:
        _check_headers(body, most)
        with pa.ipc.open_stream(body) as reader:
            for field in reader.schema:
                _check_type(field)
            table = reader.read_all()
        if table.num_rows > most:  # its headers said otherwise
            raise Problem(
                400, "The body is not a valid Arrow stream: its batches differ from their headers."
            )
        table.validate(full=True)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if table.num_rows * _longest(column) > MAX_BYTES:
                raise Problem(422, f"Column {name!r} contains strings that are too long.")
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError, struct.error) as error:
        raise Problem(400, f"The body is not a valid Arrow stream: {str(error)[:120]}.") from None


def _check_headers(body: bytes, most: int) -> None:
    """Add up the headers of all batches, of rows and of dictionaries."""
    rows = batches = categories = 0
    for metadata in _messages(body):
        header = _header(metadata)
        if header is None:
            continue
        if header.compressed:
            raise Problem(422, "The Arrow stream is compressed; send it uncompressed.")
        if header.kind == _DICTIONARY:
            categories += header.length
        else:
            rows += header.length
        batches += 1
        if rows > most:
            raise Problem(
                422,
                f"The Arrow stream has {rows:,} rows or more; the limit is {most:,} "
                "(service.max_rows). Send fewer rows per request.",
            )
        if batches > MAX_BATCHES:
            raise Problem(
                422, f"The Arrow stream has more than {MAX_BATCHES:,} batches; use larger ones."
            )
        if categories > MAX_CATEGORIES:
            raise Problem(
                422,
                f"The dictionaries of the Arrow stream have more than {MAX_CATEGORIES:,} entries. "
                "Send fewer rows per request.",
            )


def _check_type(field: pa.Field) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise Problem(422, f"Column {field.name!r} has the type {field.type}; send plain values.")


def _longest(column: pa.ChunkedArray) -> int:
    """The longest string that decoding would repeat for every row."""
    longest = 0
    for chunk in column.chunks:
        values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
        kind = values.type
        if pa.types.is_string_view(kind):
            values = values.cast(pa.string()) if values.nbytes < MAX_BYTES else values
            kind = values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            longest = max(longest, pc.max(pc.binary_length(values)).as_py() or 0)
    return longest


def _messages(body: bytes) -> Iterator[bytes]:
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    for message in reader:
        yield message.metadata.to_pybytes()


@dataclass(frozen=True)
class _Header:
    kind: int
    length: int
    compressed: bool


def _header(metadata: bytes) -> _Header | None:
    """What a message says about its batch; None if it is not a batch.

    The tables are flatbuffers: a table begins with the distance to its list of field offsets; an
    absent field has offset 0.
    """

    def field(table: int, index: int) -> int | None:
        listed = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, listed)[0]
        if 4 + 2 * index >= size:
            return None
        offset = struct.unpack_from("<H", metadata, listed + 4 + 2 * index)[0]
        return table + offset if offset else None

    def follow(place: int) -> int:
        return int(place + struct.unpack_from("<I", metadata, place)[0])

    message = follow(0)
    kind_at, header_at = field(message, 1), field(message, 2)
    if kind_at is None or header_at is None:
        return None
    kind, batch = metadata[kind_at], follow(header_at)
    if kind == _DICTIONARY:
        data = field(batch, 1)
        if data is None:
            return None
        batch = follow(data)
    elif kind != _BATCH:
        return None
    length_at = field(batch, 0)
    length = 0 if length_at is None else struct.unpack_from("<q", metadata, length_at)[0]
    if length < 0:
        raise ValueError("a batch has a negative length")
    return _Header(kind, length, compressed=field(batch, 3) is not None)
