"""Ids on disk: sorted texts that are found by bisection and erased in place.

One rule for ids, wherever they come from (`id_text` for one value, `build` for a column):

- text is kept as it stands but for blanks around it, which are cut off: a CHAR column of PostgreSQL
  pads with them. Inside, everything counts: case, blanks, commas, line breaks, leading zeros.
- a whole number is written without a point, also where a column of numbers holds 1042.0.
- two ids of a source that differ only in the blanks around them are refused, never merged.

An id is looked for as it is given, then without the blanks around it; ids that an earlier release
kept with such blanks are found by the first look. `near` finds the ids that are spelled almost so.

The order on disk is by length, then by bytes; for whole numbers that is the order of the numbers.
An erased id is overwritten with zero bytes: ids hold none themselves, so a zero marks a gap, and
bisection steps over it.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.text import as_text
from unfit.errors import BadInput

BLANKS = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
NEAR_AT_MOST = 5  # spellings offered for one id
_BLOCK = 1 << 16


def trim(text: str) -> str:
    """An id without the blanks around it."""
    return text.strip(BLANKS)


def id_text(value: object, what: str = "id") -> str:
    """The text of one id, by the rule for columns; refused where it can be nobody's."""
    if value is None or isinstance(value, bool | bytes | np.bool_):
        raise BadInput(f"{value!r} is not a valid {what}; ids are texts or numbers")
    if isinstance(value, str):
        text = str(value)
    elif isinstance(value, int):
        text = str(int(value))
    else:
        text = _text_of(value, what)
    if not trim(text):
        raise BadInput(f"a {what} is empty or holds a zero byte")
    return checked_text(text, f"a {what}")


def checked_text(text: str, what: str) -> str:
    """A text that can be stored and compared: not empty, no zero byte, UTF-8."""
    if not text or "\0" in text:
        raise BadInput(f"{what} is empty or holds a zero byte")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} is not text in UTF-8") from None
    return text


def id_list(text: str, form: str, where: str) -> list[str]:
    """The ids that a person lists: one per line, without blank lines, or as a JSON list (`json`),
    which can also hold ids with line breaks in them."""
    if form == "lines":
        return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{where} is not a JSON list of ids") from None
    if not isinstance(found, list):
        raise BadInput(f"{where} is not a JSON list of ids")
    return [id_text(value) for value in found]


def _text_of(value: object, what: str) -> str:
    try:
        text = as_text(pa.array([value]))[0].as_py()
    except (BadInput, pa.ArrowException):
        text = None
    if text is None:
        raise BadInput(f"{value!r} is not a valid {what}; ids are texts or numbers")
    return str(text)


class Ids:
    """Texts in offsets (n + 1) and bytes, as arrays or memory maps."""

    def __init__(self, offsets: np.ndarray, data: np.ndarray) -> None:
        self.offsets, self.data = offsets, data

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def raw(self, i: int) -> bytes:
        return bytes(self.data[self.offsets[i] : self.offsets[i + 1]])

    def text(self, i: int) -> str | None:
        """None where it was erased."""
        raw = self.raw(i)
        return None if raw[:1] == b"\0" else raw.decode()

    def find(self, text: str) -> int | None:
        """The place of an id as it is given, or without the blanks around it; or None."""
        place = self._bisect(text.encode())
        bare = trim(text)
        return self._bisect(bare.encode()) if place is None and bare != text else place

    def _bisect(self, wanted: bytes) -> int | None:
        key = (len(wanted), wanted)
        low, high = 0, len(self)
        while low < high:
            middle = at = (low + high) // 2
            found = self.raw(at)
            while found[:1] == b"\0" and at + 1 < high:
                at += 1
                found = self.raw(at)
            if found[:1] == b"\0":
                high = middle
            elif (len(found), found) < key:
                low = at + 1
            elif found == wanted:
                return at
            else:
                high = middle
        return None

    def find_all(self, texts: Iterable[str]) -> list[int | None]:
        return [self.find(text) for text in texts]

    def near(self, texts: Sequence[str]) -> list[list[str]]:
        """For each text the ids whose normal form (`fold`) is the same, a few at most.

        One pass over all ids, in blocks of columns; nothing is kept.
        """
        folded = fold(pa.array(texts, pa.large_string())).to_pylist()
        wanted = pa.array(sorted(set(folded)), pa.large_string())
        found: dict[str, list[str]] = {}
        for start in range(0, len(self), _BLOCK) if texts else ():
            block = self._block(start, min(start + _BLOCK, len(self)))
            forms = fold(block)
            at = pc.indices_nonzero(pc.is_in(forms, value_set=wanted))
            for form, text in zip(
                forms.take(at).to_pylist(), block.take(at).to_pylist(), strict=True
            ):
                found.setdefault(form, []).append(text)
        return [
            [text for text in found.get(form, ()) if text != asked][:NEAR_AT_MOST]
            for asked, form in zip(texts, folded, strict=True)
        ]

    def _block(self, start: int, stop: int) -> pa.LargeStringArray:
        """Some of the texts as an Arrow array over the same bytes."""
        offsets = np.asarray(self.offsets[start : stop + 1])
        data = np.ascontiguousarray(self.data[offsets[0] : offsets[-1]])
        return pa.LargeStringArray.from_buffers(
            stop - start, pa.py_buffer(offsets - offsets[0]), pa.py_buffer(data)
        )

    def take(self, places: np.ndarray) -> "Ids":
        """Some of them, in the given (rising) order."""
        lengths = self.offsets[places + 1] - self.offsets[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.offsets[places] - offsets[:-1], lengths)
        return Ids(offsets, np.asarray(self.data)[np.arange(offsets[-1]) + starts])


def fold(texts: pa.Array) -> pa.Array:
    """The normal form in which near spellings are the same.

    NFKC (so composed and decomposed, full and half width are one), no zero-width characters, lower
    case, one kind of dash and of apostrophe, single blanks and none around, no apostrophe before
    what a spreadsheet takes for a formula, and of whole numbers neither leading zeros nor a plus
    sign nor `.0`.
    """
    if not pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        texts = pc.utf8_normalize(texts, form="NFKC")
        texts = _replaced(texts, r"[\p{Cf}\x{FE00}-\x{FE0F}]+", "")
        texts = pc.utf8_lower(texts)
        texts = _replaced(texts, r"\x{DF}", "ss")
        texts = _replaced(texts, r"\x{3C2}", "\u03c3")
        texts = _replaced(texts, r"[\p{Pd}\x{2212}]", "-")
        texts = _replaced(texts, r"[\x{2018}\x{2019}\x{02BC}\x{00B4}]", "'")
        texts = pc.utf8_normalize(texts, form="NFKC")
    else:
        texts = pc.ascii_lower(texts)
    texts = _replaced(texts, r"[\s\v\p{Z}\x{1C}-\x{1F}\x{85}]+", " ")
    texts = pc.utf8_trim(texts, characters=BLANKS)
    texts = _replaced(texts, r"^'([=+\-@])", r"\1")  # as files for spreadsheets have them
    whole = pc.match_substring_regex(texts, r"^[+-]?\d+(\.0*)?$")
    if not pc.any(whole, min_count=0).as_py():
        return texts
    numbers = _replaced(texts, r"^\+|\.0*$", "")
    numbers = _replaced(numbers, r"^(-?)0+(\d)", r"\1\2")
    return pc.if_else(whole, numbers, texts)


def spellings(text: str) -> list[str]:
    """Some of the ways in which an id that is not here any more may have been spelled: in other
    case, composed or not, without invisible characters, with single blanks, without zeros before a
    number. Not all that `fold` merges: what is forgotten is known only by its digest.
    """
    bare = "".join(c for c in trim(text) if unicodedata.category(c) != "Cf")
    forms = [bare, " ".join(bare.split()), fold(pa.array([text]))[0].as_py()]
    cased = [change(form) for form in forms for change in (str, str.lower, str.upper, str.title)]
    made = [unicodedata.normalize(form, one) for one in cased for form in ("NFC", "NFD", "NFKC")]
    return [one for one in dict.fromkeys(made) if one != text and one]


def _replaced(texts: pa.Array, pattern: str, by: str) -> pa.Array:
    """Where there is something to replace at all: looking is the cheaper part."""
    if not pc.any(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        return texts
    return pc.replace_substring_regex(texts, pattern, by)


def build(texts: pa.ChunkedArray, what: str, where: str) -> tuple[Ids, np.ndarray]:
    """The distinct texts, sorted, and the place of each given one (n,) int64."""
    missing = pc.index(pc.is_valid(texts), False).as_py()
    if missing >= 0:
        raise BadInput(
            f"{where}: row {missing} has no {what}; every row needs one to be found (drop_missing "
            "in unfit.toml, or --drop-missing of `unfit init`, leaves such rows out)"
        )
    encoded = pc.dictionary_encode(texts).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    distinct = trimmed(encoded.dictionary, what, where)
    size = pc.binary_length(distinct)
    if len(distinct) and (pc.min(size).as_py() == 0 or _has_zero(distinct)):
        raise BadInput(f"{where}: a {what} is empty or holds a zero byte")
    table = pa.table({"size": size, "text": distinct})
    order = pc.sort_indices(table, sort_keys=[("size", "ascending"), ("text", "ascending")])
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    ordered = distinct.take(order).cast(pa.large_string())
    _, offsets, data = ordered.buffers()
    starts = np.frombuffer(offsets, np.int64)[: len(ordered) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    ids = Ids(starts - starts[0], content[starts[0] : starts[-1]])
    return ids, rank[encoded.indices.to_numpy(zero_copy_only=False)]


def trimmed(distinct: pa.Array, what: str, where: str) -> pa.Array:
    """Distinct ids without the blanks around them; refused where two would become one."""
    bare = pc.utf8_trim(distinct, characters=BLANKS)
    encoded = pc.dictionary_encode(bare)
    if len(encoded.dictionary) < len(bare):
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        at = int(np.flatnonzero(np.diff(codes[order]) == 0)[0])
        one, other = (distinct[int(order[i])].as_py() for i in (at, at + 1))
        raise BadInput(
            f"{where}: {one!r} and {other!r} are each a {what} and differ only in the blanks "
            "around them; make them equal or different in the source"
        )
    return bare


def _has_zero(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, "\0")).as_py())
