"""The contract of a source of rows."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from unfit.data.sources import Location, Source


def check_source(location: "Location", expected: "pa.Table | None" = None) -> None:
    """The contract of a source, checked on the rows at a location (at least two, in any format).

    Columns have distinct names; blocks hold those that are asked for, in that order, each of one
    type; reading or opening a source again gives the same rows, in the same order unless the source
    says that it has none; the parts of it have the same rows one after another; a file that does
    not exist is an error that names it. expected: what the rows must be, as text.
    """
    from unfit.data.sources import Source, open_source
    from unfit.errors import BadInput

    source = open_source(location)
    assert isinstance(source, Source), f"{source!r} is not a unfit.data.sources.Source"
    assert isinstance(source.name, str), "a source needs a name for messages"
    assert source.name, "the name of a source is empty"
    names = source.columns()
    assert names, f"{source.name} has no columns"
    assert len(set(names)) == len(names), f"{source.name} has two columns of one name"
    whole = _texts(source, names, None)
    rows = len(next(iter(whole.values())))
    assert rows >= 2, f"{source.name} has {rows} rows; the contract needs at least two"
    for again, what in ((source, "reading"), (open_source(location), "opening")):
        found = _texts(again, names, None)
        if not source.ordered:
            assert _sorted(found) == _sorted(whole), f"{what} it again gives other rows"
        else:
            assert found == whole, f"{what} it again gives other rows, or another order"
    for some in ([names[-1]], names[::-1]):
        part = _texts(source, some, some)
        if source.ordered:
            assert part == {name: whole[name] for name in some}, f"rows differ for {some}"
        else:
            assert _sorted(part) == _sorted({name: whole[name] for name in some})
    if source.ordered:
        parts = [_texts(part, names, None) for part in source.parts(3)]
        joined = {name: [value for part in parts for value in part[name]] for name in names}
        assert joined == whole, "the parts of it have other rows, or another order"
    if expected is not None:
        from unfit.data.text import as_text

        wanted = {name: as_text(expected[name].combine_chunks()).to_pylist() for name in names}
        assert _sorted(whole) == _sorted(wanted), f"{source.name} gives other rows than expected"
        assert not source.ordered or whole == wanted, f"{source.name} gives another order"
    if location.path is not None:
        absent = location.path.with_name(f"absent-{location.path.name}")
        said = f"{absent.name} does not exist and was opened"
        try:
            open_source(replace(location, path=absent))
        except BadInput as error:
            said = "" if absent.name in str(error) else f"the error names no file: {error}"
        assert not said, said


def _texts(
    source: "Source", names: list[str], asked: list[str] | None
) -> dict[str, list[str | None]]:
    """The values of all blocks as text, by column."""
    import pyarrow as pa

    from unfit.data.text import as_text

    found: dict[str, list[str | None]] = {name: [] for name in names}
    types: dict[str, object] = {}
    for batch in source.blocks(asked):
        assert isinstance(batch, pa.RecordBatch), "blocks must be Arrow record batches"
        held = list(batch.schema.names)
        assert held == names, f"a block holds the columns {held} instead of {names}"
        for name in names:
            kind = batch.column(name).type
            if not pa.types.is_null(kind):
                known = types.setdefault(name, kind)
                assert kind == known, (
                    f"column {name!r} is {known} in one block and {kind} in another"
                )
            found[name] += as_text(batch.column(name)).to_pylist()
    return found


def _sorted(columns: dict[str, list[str | None]]) -> list[tuple[str, ...]]:
    rows = zip(*columns.values(), strict=True)
    return sorted(tuple("" if text is None else f"={text}" for text in row) for row in rows)
