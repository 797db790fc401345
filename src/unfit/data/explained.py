"""Constants in words: where each of those on a model's card comes from."""

from dataclasses import dataclass

from unfit.data.columns import BAGS
from unfit.data.encoding import Encoded, Encoding


@dataclass(frozen=True)
class Explained:
    """In words, where each constant comes from: those of the columns, and the norm bound."""

    columns: dict[str, dict[str, str]]
    norm: str


def explained(encoding: Encoding) -> Explained:
    few = encoding.min_rows
    norm = "declared" if encoding.clip else "none: rows stay as long as they are"
    if encoding.norm_fitted:
        norm = f"fitted: the length of the longest training row; {_UNROUNDED}"
        if few is not None:
            norm = (
                "fitted: the median length of the training rows that remain, rounded to an eighth "
                f"of a doubling (1 if they are fewer than {few}); longer rows are cut to it"
            )
    return Explained({c.column.name: _explained(c, few) for c in encoding.columns}, norm)


_UNROUNDED = "not rounded, by an earlier version of unfit"


def _explained(c: Encoded, few: int | None) -> dict[str, str]:
    fitted = c.constants == "fitted"
    rows = "the training rows that remain"
    if c.column.kind == "category":
        how = "declared"
        if fitted and few is None:
            how = f"fitted: the most frequent of the training rows; {_UNROUNDED}"
        elif fitted:
            how = (
                f"fitted: held by at least {few} of {rows}, the {c.column.max_categories} most "
                "frequent at most, by rounded frequency and then by name"
            )
        return {"categories": how, "others": f"held by at least {few or 1} of {rows}, no column"}
    if c.column.kind in BAGS:
        return _explained_bag(c, few)
    mean = f"fitted: the mean of {rows}, rounded to an eighth of their rounded deviation"
    deviation = f"fitted: the standard deviation of {rows}, rounded to a power of two"
    fill = "declared"
    if few is None:
        mean = f"fitted: the mean of the training rows; {_UNROUNDED}"
        deviation = f"fitted: the standard deviation of the training rows; {_UNROUNDED}"
    else:
        mean += f" (0 if fewer than {few} have a value)"
        deviation += f" (1 if all are the same, or fewer than {few} have a value)"
    if c.column.missing == "mean":
        fill = mean if c.column.kind == "boolean" else "the shift"
    elif c.column.missing == "error":
        fill = "not used: a missing value is an error"
    if c.column.kind == "boolean":
        return {"shift": "none", "scale": "none", "fill": fill}
    if fitted:
        return {"shift": mean, "scale": deviation, "fill": fill}
    declared = "none" if c.column.scale == "none" else "declared"
    return {"shift": declared, "scale": declared, "fill": fill}


def _explained_bag(c: Encoded, few: int | None) -> dict[str, str]:
    """Of a column that stands for many. Nothing is shifted: what is zero stays zero."""
    if c.column.kind == "hash":
        how = f"BLAKE2b of a text, its first 8 bytes modulo {c.column.width}; without a key"
        return {"shift": "none", "scale": "none", "columns": how}
    scale = "none" if c.column.scale == "none" else "declared"
    if c.constants == "fitted":
        scale = (
            "fitted: the median of the largest values of the training rows that remain, rounded "
            f"down to a power of two (1 if fewer than {few} have a value); one for all its columns"
        )
    return {"shift": "none", "scale": scale, "columns": f"declared: {c.column.width}"}
