"""Arrow streams from strangers: no larger in memory than they come over the wire allows."""

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from unfit.service.problems import Problem

MAX_ROWS = 1_000_000
MAX_BYTES = 256_000_000  # of a column, its values written out
_DICTIONARY, _BATCH = 2, 3  # kinds of messages


def read(body: bytes) -> pa.Table:
    """A checked table; what is compressed, nested or too large is refused before it is unpacked."""
    try:
        if any(_compressed(metadata) for metadata in _messages(body)):
            raise Problem(422, "the stream is compressed; send it as it is")
        with pa.ipc.open_stream(body) as reader:
            for field in reader.schema:
                _check_type(field)
            table = reader.read_all()
        if table.num_rows > MAX_ROWS:
            raise Problem(422, f"{table.num_rows:,} rows are over {MAX_ROWS:,}; send fewer")
        table.validate(full=True)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if table.num_rows * _longest(column) > MAX_BYTES:
                raise Problem(422, f"column {name!r} holds texts that are too long")
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError, struct.error) as error:
        raise Problem(400, f"the body is not an Arrow stream: {str(error)[:120]}") from None


def _check_type(field: pa.Field) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise Problem(422, f"column {field.name!r} holds {field.type}; send plain values")


def _longest(column: pa.ChunkedArray) -> int:
    """The longest text that decoding would write out once a row."""
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


def _compressed(metadata: bytes) -> bool:
    """Whether a message's batch names a compression. The tables are flatbuffers: a table begins
    with the distance to its list of field offsets; a field that is absent has offset 0."""

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
        return False
    kind, batch = metadata[kind_at], follow(header_at)
    if kind == _DICTIONARY:
        data = field(batch, 1)
        if data is None:
            return False
        batch = follow(data)
    return kind in (_DICTIONARY, _BATCH) and field(batch, 3) is not None
