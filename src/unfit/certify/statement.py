"""The in-toto statement that a certificate signs, and the annex for an auditor. No files.

The same claim always gives the same bytes. Numbers are decimal strings. Those that make up the
claim (epsilon, delta, mu, their joint values) have 13 digits and are rounded up, which is towards
the weaker claim; what was configured (noise, l2, tol) is stated as it was.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, fields
from decimal import ROUND_CEILING, Context, Decimal
from numbers import Integral

from unfit.certify import verify
from unfit.certify.rejections import as_bad_input
from unfit.certify.verify import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Annex,
    Claim,
    Constant,
    Subject,
    canonical,
)
from unfit.errors import BadInput

__all__ = [
    "PREDICATE_TYPE",
    "Annex",
    "Claim",
    "Constant",
    "Subject",
    "annex_bytes",
    "centre_commitment",
    "commitment",
    "parse_annex",
    "parse_statement",
    "statement_bytes",
]

SALT_BYTES = 16  # at least
_UP = Context(prec=13, rounding=ROUND_CEILING)  # mu_of leaves 1e-11 for it
_CLAIMED = {"epsilon", "delta", "mu_limit", "joint_mu", "joint_epsilon", "mu", "distance"}


def statement_bytes(claim: Claim, subject_name: str, subject_sha256: str) -> bytes:
    """The statement about one released file, ready to be sealed."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject_name, "digest": {"sha256": subject_sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": _record(claim),
    }
    return _readable(statement, verify.parse_statement)


def parse_statement(payload: bytes) -> tuple[Claim, tuple[Subject, ...]]:
    """The claim and the files it is about. Only for bytes whose signature was verified."""
    with as_bad_input():
        return verify.parse_statement(payload)


def annex_bytes(annex: Annex) -> bytes:
    """The annex, ready to be sealed as `verify.ANNEX_TYPE`."""
    return _readable(_record(annex), verify.parse_annex)


def parse_annex(payload: bytes) -> Annex:
    """The annex. Only for bytes whose signature was verified."""
    with as_bad_input():
        return verify.parse_annex(payload)


def commitment(salt: bytes, identifier: str) -> str:
    """What a certificate says of a deleted id: a digest that names nobody without the salt."""
    return verify.commitment(_long_enough(salt), identifier)


def centre_commitment(salt: bytes, centre: bytes) -> str:
    """The same of the weights before noise: little-endian float64 (k, d), row by row."""
    return verify.centre_commitment(_long_enough(salt), hashlib.sha256(centre).hexdigest())


def _long_enough(salt: bytes) -> bytes:
    if len(salt) < SALT_BYTES:
        raise BadInput(f"a salt needs {SALT_BYTES} random bytes at least, got {len(salt)}")
    return salt


def _record(record: Claim | Annex) -> dict[str, object]:
    """A record as JSON."""
    plain = asdict(record)
    for one in fields(record):
        value = plain[one.name]
        if one.type in {float, float | None} and value is not None:
            plain[one.name] = _decimal(one.name, float(value))
        elif isinstance(value, Integral) and not isinstance(value, bool):
            plain[one.name] = int(value)
    if isinstance(record, Claim):
        plain["constants"] = [Constant(*one)._asdict() for one in record.constants]
    return plain


def _decimal(name: str, value: float) -> str:
    """The shortest decimal that gives this number; of a claim, no more than 13 digits of it."""
    if not math.isfinite(value):
        raise BadInput(f"a certificate cannot state {name} = {value}")
    exact = Decimal(repr(value))
    return format(_UP.plus(exact) if name in _CLAIMED else exact, "g")


def _readable(value: object, read: Callable[[bytes], object]) -> bytes:
    """The bytes, once they have been read back: what cannot be read is never written."""
    with as_bad_input():
        data = canonical(value)
        read(data)
    return data
