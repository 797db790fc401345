"""Check a certificate of unfit. One file, for strangers: it imports Python's standard library and
`cryptography`, and nothing of unfit, so that it can be read from top to bottom and run anywhere:

    python verify.py CERTIFICATE --key KEY [--model FILE] ...        (or: unfit verify ...)

A certificate is an in-toto statement in a DSSE envelope, signed with Ed25519, and an entry of an
RFC 6962 Merkle tree whose signed roots are C2SP checkpoints (docs/verifying.md). Signatures are
checked over exactly the bytes that were signed, and nothing is parsed before. The rest of
unfit.certify writes these formats with the functions of this file; that is why it is longer than
other modules are.
"""

import argparse
import base64
import binascii
import hashlib
import io
import json
import math
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:unfit:certificate:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
ANNEX_TYPE = "application/vnd.unfit.annex.v1+json"
BUNDLE_TYPE = "application/vnd.unfit.certificate.v1+json"
LOG_TYPE = "application/vnd.unfit.log.v1+jsonl"
PROOF_HEADER = "c2sp.org/tlog-proof@v1"
CHECKPOINT_SIGNATURES = 64  # at most; C2SP asks for 16 at least
NOISE_LUCK = 1e-6  # how often honest noise may be called noise of another size
MOST_EPSILON = 100.0  # of one release; beyond it nothing is promised
LEAST_MU = 1e-100  # of one release
SLACK = 1e-9  # relative; what this file's own arithmetic may be off by, and more

NOT_PROVED = (
    "that the rows the owner calls the remaining ones are all the rows there are",
    "that no copies of deleted rows exist elsewhere",
    "anything about versions that were published before a deletion: they were trained with the row",
    "that the process was run as the certificate says, by an owner who is free to lie",
    "that everybody is shown the same log: compare its checkpoints with those that others hold",
)


class Rejected(ValueError):
    """What was presented does not hold, in one sentence."""


class NotChecked(Exception):
    """A check that was not asked for or for which something is missing, in one sentence."""


class MissingLibrary(Rejected):
    """`cryptography` is not installed."""


# --- JSON and base64 that can be written in one way only


def canonical(value: object) -> bytes:
    """JSON as unfit writes it: UTF-8, sorted names, no blanks."""
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except (ValueError, RecursionError):  # half a surrogate pair, say
        raise Rejected("this cannot be written as JSON in UTF-8") from None


def read_json(data: bytes, what: str) -> object:
    """JSON without repeated names and without numbers that are not whole."""
    try:
        return json.loads(
            data.decode(),
            object_pairs_hook=_without_repeats,
            parse_float=_no_such_number,
            parse_constant=_no_such_number,
        )
    except (ValueError, RecursionError):
        raise Rejected(f"{what} is damaged, cut short, or not JSON of this kind") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_such_number(text: str) -> object:
    raise ValueError(f"{text} is not a whole number")


def read_canonical(data: bytes, what: str) -> object:
    """JSON whose bytes are exactly those that unfit writes."""
    found = read_json(data, what)
    if canonical(found) != data:
        raise Rejected(f"{what} was changed after it was written: its bytes are not in normal form")
    return found


def as_object(value: object, what: str, needed: Iterable[str], may: Iterable[str] = ()) -> Any:
    """A JSON object with these names and no others."""
    if not isinstance(value, dict):
        raise Rejected(f"{what} is not a JSON object")
    needed = set(needed)
    if missing := sorted(needed - value.keys()):
        raise Rejected(f"{what} has no field '{missing[0]}'")
    if unknown := sorted(value.keys() - needed - set(may)):
        raise Rejected(f"{what} has a field '{unknown[0]}', which this version does not know")
    return value


def encode64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode64(text: object, what: str, either: bool = False) -> bytes:
    """Base64 that could not be written otherwise; either: of the URL-safe alphabet as well."""
    if not isinstance(text, str):
        raise Rejected(f"{what} is not text")
    plain = text
    if either and not set(text) & set("+/"):
        plain = text.translate(str.maketrans("-_", "+/"))
    try:
        data = base64.b64decode(plain.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        data = None
    if data is None or encode64(data) != plain:
        raise Rejected(f"{what} is not base64")
    return data


# --- keys


@dataclass(frozen=True)
class VerifyKey:
    """An Ed25519 public key under a name, as C2SP's signed notes have it."""

    name: str
    raw: bytes

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or set(self.name) & set("+ "):
            raise Rejected(
                "a key's name has no blanks and no '+', such as example.org/model, got "
                f"'{self.name}'"
            )
        if len(self.raw) != 32:
            raise Rejected(f"an Ed25519 key has 32 bytes, got {len(self.raw)}")

    @property
    def key_hash(self) -> bytes:
        """Four bytes that say which key signed; no security rests on them."""
        return hashlib.sha256(self.name.encode() + b"\n\x01" + self.raw).digest()[:4]

    @property
    def id(self) -> str:
        return f"{self.name}+{self.key_hash.hex()}"

    @property
    def text(self) -> str:
        """The key as it is handed on and pinned: name+hash+base64."""
        return f"{self.id}+{encode64(bytes([1]) + self.raw)}"

    @classmethod
    def parse(cls, text: str) -> "VerifyKey":
        """A key from its text."""
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise Rejected("a key reads name+hash+base64, and this does not")
        encoded = decode64(parts[2], "the last part of the key")
        if len(encoded) != 33 or encoded[0] != 1:
            raise Rejected("the key is not an Ed25519 key of 32 bytes")
        key = cls(parts[0], encoded[1:])
        if parts[1] != key.key_hash.hex():
            raise Rejected("the key's parts do not belong together: it was changed or cut")
        return key

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed exactly these bytes."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise MissingLibrary(
                "signatures need the library cryptography: pip install cryptography"
            ) from None
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


# --- DSSE envelopes


@dataclass(frozen=True)
class Opened:
    """What an envelope held, and the key that signed it."""

    payload_type: str
    payload: bytes
    key: VerifyKey


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def open_envelope(envelope: bytes, keys: Sequence[VerifyKey]) -> Opened:
    """The payload, if one of these keys signed it. The key id in it is a hint, and not trusted."""
    found = read_json(envelope, "the envelope")
    found = as_object(found, "the envelope", ["payload", "payloadType", "signatures"])
    kind = as_text(found["payloadType"], "the envelope's payloadType")
    if not kind:
        raise Rejected("the envelope does not say what is in it: payloadType is empty")
    payload = decode64(found["payload"], "the envelope's payload", either=True)
    message = pae(kind, payload)
    for one in as_list(found["signatures"], "the envelope's signatures"):
        entry = as_object(one, "a signature of the envelope", ["sig"], ["keyid"])
        signature = decode64(entry["sig"], "a signature of the envelope", either=True)
        for key in keys:
            if key.verify(message, signature):
                return Opened(kind, payload, key)
    raise Rejected("none of the given keys signed this: it was changed, or another key signed it")


def key_id_of(envelope: bytes) -> str:
    """Which key an envelope of unfit says it was signed with, for a message."""
    found = as_object(
        read_canonical(envelope, "the envelope"),
        "the envelope",
        ["payload", "payloadType", "signatures"],
    )
    signatures = as_list(found["signatures"], "the envelope's signatures")
    if len(signatures) != 1:
        raise Rejected("an envelope of unfit has one signature")
    entry = as_object(signatures[0], "the signature of the envelope", ["keyid", "sig"])
    return as_text(entry["keyid"], "the envelope's keyid")


# --- the Merkle tree of RFC 6962


EMPTY_ROOT = hashlib.sha256(b"").digest()
Peaks = tuple[bytes, ...]


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def push(peaks: Peaks, size: int, leaf: bytes) -> Peaks:
    """The perfect subtrees of a log of `size` leaves, largest first, after one leaf more."""
    while size & 1:
        leaf = node_hash(peaks[-1], leaf)
        peaks, size = peaks[:-1], size >> 1
    return (*peaks, leaf)


def root_of(peaks: Peaks) -> bytes:
    if not peaks:
        return EMPTY_ROOT
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def verify_inclusion(
    index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes
) -> bool:
    """Whether this leaf hash stands at this index of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    here, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if here & 1 or here == last:
            found = node_hash(sibling, found)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        here, last = here >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(
    old_size: int, size: int, old_root: bytes, root: bytes, path: Sequence[bytes]
) -> bool:
    """Whether the tree of old_size is the beginning of this one (RFC 9162, 2.1.4.2)."""
    if not 0 <= old_size <= size:
        return False
    if old_size in {0, size}:
        return not path and old_root == (root if old_size == size else EMPTY_ROOT)
    nodes = list(path) if old_size & (old_size - 1) else [old_root, *path]
    if not nodes:
        return False
    here, last = old_size - 1, size - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    old, new = nodes[0], nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if here & 1 or here == last:
            old, new = node_hash(node, old), node_hash(node, new)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            new = node_hash(new, node)
        here, last = here >> 1, last >> 1
    return last == 0 and old == old_root and new == root


# --- C2SP: signed notes, checkpoints, proofs


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A log's size and root, signed. other_signatures: of keys that were not given, ignored."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...]
    keys: tuple[VerifyKey, ...]  # those that signed it
    other_signatures: int


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Where an entry stands in a log, the hashes up to the root, and the checkpoint as text."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: str


def open_checkpoint(text: str, keys: Sequence[VerifyKey]) -> Checkpoint:
    """A checkpoint that the key of its origin signed."""
    body, signers, others = _open_note(text, keys)
    lines = body.removesuffix("\n").split("\n")
    if len(lines) < 3 or not all(lines):
        raise Rejected("the checkpoint does not consist of an origin, a size and a root")
    if lines[0] not in {key.name for key in signers}:
        names = ", ".join(key.name for key in signers)
        raise Rejected(f"the checkpoint is of the log '{lines[0]}', and was signed by {names}")
    return Checkpoint(
        origin=lines[0],
        size=_decimal(lines[1], "the checkpoint's size"),
        root=_hash(lines[2], "the checkpoint's root"),
        extensions=tuple(lines[3:]),
        keys=signers,
        other_signatures=others,
    )


def _open_note(text: str, keys: Sequence[VerifyKey]) -> tuple[str, tuple[VerifyKey, ...], int]:
    """The text of a signed note, the keys that signed it, and a count of unknown signatures."""
    end = text.rfind("\n\n")
    lines = text[end + 2 :].split("\n")
    if end < 0 or lines.pop() != "" or any(c < " " and c != "\n" for c in text):
        raise Rejected("the checkpoint is damaged or cut short: it is not a signed note")
    if not 0 < len(lines) <= CHECKPOINT_SIGNATURES:
        raise Rejected("the checkpoint has no signature, or too many")
    body = text[: end + 1]
    known = {(key.name, key.key_hash): key for key in keys}
    signers: list[VerifyKey] = []
    for line in lines:
        matched = re.fullmatch(r"\u2014 ([^ +]+) ([^ ]+)", line)
        if matched is None:
            raise Rejected("a line of signature under the checkpoint is damaged")
        signature = decode64(matched[2], "a signature of the checkpoint")
        key = known.get((matched[1], signature[:4]))
        if key is None:
            continue
        if key in signers or not key.verify(body.encode(), signature[4:]):
            raise Rejected(f"the signature of {key.name} under the checkpoint does not hold")
        signers.append(key)
    if not signers:
        raise Rejected("none of the given keys signed the checkpoint")
    return body, tuple(signers), len(lines) - len(signers)


def parse_proof(text: str) -> Proof:
    """A C2SP tlog-proof. Its optional extra line, which nothing authenticates, is refused."""
    head, blank, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    if not blank or len(lines) < 2 or not lines[1].startswith("index "):
        raise Rejected("the proof of inclusion is damaged or cut short")
    if lines[0] != PROOF_HEADER:
        raise Rejected(f"the proof of inclusion is not of the kind {PROOF_HEADER}")
    index = _decimal(lines[1].removeprefix("index "), "the index in the proof")
    path = tuple(_hash(line, "a line of the proof") for line in lines[2:])
    return Proof(index=index, path=path, checkpoint=checkpoint)


def _decimal(text: str, what: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,17}", text):
        raise Rejected(f"{what} is not a whole number")
    return int(text)


def _hash(text: object, what: str) -> bytes:
    found = decode64(text, what)
    if len(found) != 32:
        raise Rejected(f"{what} is not a SHA-256 hash")
    return found


# --- the statement, and the annex for an auditor


class Constant(NamedTuple):
    """A constant of the encoding: declared by the owner, or fitted to the rows of a version."""

    name: str
    origin: Literal["declared", "fitted"]
    version: int | None


class Subject(NamedTuple):
    """What a statement is about: a released file."""

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is claimed of one release, for everybody to read.

    It states nominal figures: mu_limit is the largest mu that epsilon and delta allow, or a 64th of
    it for a training, and joint_mu the root of the sum of the squared limits of all releases that
    count. What this release came to depends on the rows, and is in the Annex.
    """

    model: str
    model_uuid: str
    request: str  # what led to it, such as "training" or "erasure"
    version: int
    earlier_version: int | None
    issued: str  # RFC 3339, UTC
    theorem: str
    loss: str
    epsilon: float
    delta: float
    mu_limit: float
    noise: float  # standard deviation on each weight
    l2: float
    tol: float
    rows: int  # that remain
    problems: int
    columns: int  # with the intercept
    deleted: int  # training rows, since the log's first entry
    releases: int  # since the first deletion at least, this one included
    joint_mu: float
    joint_epsilon: float  # at delta
    commitments: tuple[str, ...]
    centre_commitment: str
    code_digest: str
    constants: tuple[Constant, ...]
    owner_choices: tuple[str, ...]
    not_claimed: tuple[str, ...]
    previous: str | None  # digest of the log's entry before this one


@dataclass(frozen=True, kw_only=True)
class Annex:
    """What an auditor may see besides: figures that depend on the data.

    entry: digest of the certificate's entry; residual: |F(centre)| at most, where it was computed.
    """

    entry: str
    distance: float
    bound: str
    mu: float
    steps: int
    residual: float | None
    centre_sha256: str
    centre_salt: str


def as_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise Rejected(f"{what} is not text")
    return value


def as_list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise Rejected(f"{what} is not a list")
    return value


def _count(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise Rejected(f"{what} is not a count")
    return value


def _number(value: object, what: str) -> float:
    """A number that was written as a decimal string."""
    if not re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", as_text(value, what)):
        raise Rejected(f"{what} is not a decimal number")
    found = float(str(value))
    if not math.isfinite(found):
        raise Rejected(f"{what} is too large")
    return found


def _digest(value: object, what: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", as_text(value, what)):
        raise Rejected(f"{what} is not a SHA-256 digest in hexadecimal")
    return str(value)


def _hexadecimal(value: object, what: str) -> str:
    if not re.fullmatch("([0-9a-f]{2}){16,64}", as_text(value, what)):
        raise Rejected(f"{what} is not 16 to 64 bytes in hexadecimal")
    return str(value)


def _time(value: object, what: str) -> str:
    shape = r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,9})?Z"
    try:
        if not re.fullmatch(shape, as_text(value, what)):
            raise ValueError
        datetime.fromisoformat(str(value)[:19])
    except ValueError:
        raise Rejected(f"{what} is not a time such as 2026-01-31T12:00:00Z") from None
    return str(value)


def _constant(value: object, what: str) -> Constant:
    found = as_object(value, what, ["name", "origin", "version"])
    origin = found["origin"]
    if origin not in ("declared", "fitted"):  # not a set: it may be a list
        raise Rejected(f"{what} is neither declared nor fitted")
    version = _or_none(_count)(found["version"], what)
    return Constant(as_text(found["name"], what), origin, version)


Reader = Callable[[object, str], Any]


def _or_none(reader: Reader) -> Reader:
    return lambda value, what: None if value is None else reader(value, what)


def _each(reader: Reader) -> Reader:
    return lambda value, what: tuple(reader(one, what) for one in as_list(value, what))


_BY_TYPE: dict[object, Reader] = {
    str: as_text,
    int: _count,
    float: _number,
    int | None: _or_none(_count),
    float | None: _or_none(_number),
    tuple[str, ...]: _each(as_text),
    tuple[Constant, ...]: _each(_constant),
}
_BY_NAME: dict[str, Reader] = {
    "issued": _time,
    "commitments": _each(_digest),
    "centre_commitment": _digest,
    "previous": _or_none(_digest),
    "entry": _digest,
    "centre_sha256": _digest,
    "centre_salt": _hexadecimal,
}


def _read_record(kind: type, value: object, what: str) -> dict[str, Any]:
    """The fields of a record, each of its type."""
    expected = {one.name: one.type for one in fields(kind)}
    found = as_object(value, what, expected)
    readers = {name: _BY_NAME.get(name) or _BY_TYPE[of] for name, of in expected.items()}
    return {name: read(found[name], f"{what}'s {name}") for name, read in readers.items()}


def parse_statement(payload: bytes) -> tuple[Claim, tuple[Subject, ...]]:
    """The claim and the files it is about. Only for bytes whose signature was verified."""
    statement = as_object(
        read_canonical(payload, "the statement"),
        "the statement",
        ["_type", "subject", "predicateType", "predicate"],
    )
    if statement["_type"] != STATEMENT_TYPE:
        raise Rejected("the payload is not an in-toto statement of version 1")
    kind = as_text(statement["predicateType"], "the statement's predicateType")
    family = PREDICATE_TYPE.rpartition(":")[0]
    if kind != PREDICATE_TYPE and kind.startswith(family + ":"):
        raise Rejected(f"the certificate is of another version, {kind}: use a newer verifier")
    if kind != PREDICATE_TYPE:
        raise Rejected(f"the statement is not a certificate of unfit, but of the type {kind}")
    claim = Claim(**_read_record(Claim, statement["predicate"], "the certificate"))
    _check_ranges(claim)
    if claim.earlier_version is not None and claim.earlier_version >= claim.version:
        raise Rejected("the certificate's version is not later than the version before it")
    subjects = tuple(_subject(one) for one in as_list(statement["subject"], "the subjects"))
    if not subjects:
        raise Rejected("the statement names no released file")
    return claim, subjects


def _check_ranges(claim: Claim) -> None:
    """Whether every figure is one that a certificate of unfit can have."""
    holds = {
        "epsilon": claim.epsilon <= MOST_EPSILON,
        "delta": 0 < claim.delta < 1,
        "mu_limit": claim.mu_limit >= LEAST_MU,
        **{name: getattr(claim, name) > 0 for name in ("noise", "l2")},
        **{name: getattr(claim, name) >= 1 for name in ("rows", "problems", "columns", "releases")},
    }
    for name, within in holds.items():
        if not within:
            raise Rejected(f"the certificate's {name} is out of range: {getattr(claim, name):g}")


def _subject(value: object) -> Subject:
    found = as_object(value, "a subject", ["name", "digest"])
    digest = as_object(found["digest"], "a subject's digest", ["sha256"])
    return Subject(
        as_text(found["name"], "a subject's name"), _digest(digest["sha256"], "a subject")
    )


def parse_annex(payload: bytes) -> Annex:
    """The annex. Only for bytes whose signature was verified."""
    return Annex(**_read_record(Annex, read_canonical(payload, "the annex"), "the annex"))


# A workspace commits to an id with what it names: subject:1042 for a person, row:7 for a row.
ID_KINDS = ("subject:", "row:")


def commitment(salt: bytes, identifier: str) -> str:
    """A digest that names nobody without the salt."""
    return _committed(b"unfit deleted id v1", salt, identifier.encode())


def centre_commitment(salt: bytes, centre_sha256: str) -> str:
    """The same of the weights before noise, by the SHA-256 of their float64 bytes."""
    return _committed(b"unfit centre v1", salt, bytes.fromhex(centre_sha256))


def _committed(domain: bytes, *parts: bytes) -> str:
    """Every part with its length, so that no two lists of parts give the same bytes."""
    message = b"".join(len(part).to_bytes(8, "big") + part for part in (domain, *parts))
    return hashlib.sha256(message).hexdigest()


# --- files: a certificate with its proof, and the export of a log


class Growth(NamedTuple):
    """A proof that the log has only grown since it had this size and root."""

    size: int
    root: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The parts of a certificate's file; envelopes as their bytes."""

    certificate: bytes
    proof: str
    annex: bytes | None
    consistency: Growth | None


def read_bundle(data: bytes) -> Bundle:
    """The parts of a certificate's file, which has exactly the bytes that unfit wrote."""
    if not data.endswith(b"}\n"):
        raise Rejected("the file is cut short, or it is not a certificate of unfit")
    found = read_canonical(data[:-1], "the file")
    kind = found.get("mediaType") if isinstance(found, dict) else None
    if kind != BUNDLE_TYPE:
        stem = BUNDLE_TYPE.partition(".v1")[0]
        newer = isinstance(kind, str) and kind.startswith(stem)
        raise Rejected(
            f"the file is of another version, {kind}: use a newer verifier"
            if newer
            else "the file is not a certificate of unfit"
        )
    optional = ["annex", "consistency"]
    found = as_object(found, "the file", ["mediaType", "certificate", "proof"], optional)
    return Bundle(
        certificate=canonical(found["certificate"]),
        proof=as_text(found["proof"], "the proof"),
        annex=canonical(found["annex"]) if "annex" in found else None,
        consistency=_growth(found["consistency"]) if "consistency" in found else None,
    )


def _growth(value: object) -> Growth:
    what = "the proof of consistency"
    found = as_object(value, what, ["size", "root", "path"])
    path = tuple(_hash(one, what) for one in as_list(found["path"], what))
    return Growth(_count(found["size"], what), _hash(found["root"], what), path)


class Entry(NamedTuple):
    """What one entry of a log says, and the key that signed it."""

    claim: Claim
    subjects: tuple[Subject, ...]
    key: VerifyKey

    @property
    def released(self) -> tuple[object, ...]:
        """What all entries of one version have in common."""
        return self.claim.mu_limit, self.claim.joint_mu, self.subjects


@dataclass(frozen=True, kw_only=True)
class Log:
    """A whole log whose signatures, order and root were verified."""

    checkpoint: Checkpoint
    leaves: tuple[bytes, ...]
    entries: tuple[Entry, ...]

    def check_signer(self, checkpoint: Checkpoint, what: str) -> None:
        """Whether the key in use at a checkpoint's size signed it: a key that was replaced counts
        for what was signed before."""
        if not checkpoint.size:
            return
        key = self.entries[checkpoint.size - 1].key
        if key not in checkpoint.keys:
            named = ", ".join(one.id for one in checkpoint.keys)
            raise Rejected(
                f"{what} is signed with {named}; the key in use at its size, "
                f"{checkpoint.size}, was {key.id}"
            )

    def root_at(self, size: int) -> bytes:
        """The root that the log had when it had so many entries."""
        peaks: Peaks = ()
        for at in range(size):
            peaks = push(peaks, at, self.leaves[at])
        return root_of(peaks)


def read_log(lines: Iterable[bytes], keys: Sequence[VerifyKey]) -> Log:
    """The export of a log: every entry's signature, the chain of entries, and the signed root."""
    rest = iter(lines)
    if _line(next(rest, b""), "the log's first line") != {"mediaType": LOG_TYPE}:
        raise Rejected("this is not the export of a log by unfit, or it is of a newer version")
    leaves: list[bytes] = []
    entries: list[Entry] = []
    replaced: dict[VerifyKey, int] = {}  # keys, and the entries that others first signed
    for line in rest:
        found = _line(line, f"line {len(leaves) + 2} of the log")
        if "checkpoint" in found:
            break
        envelope = _envelope(found, len(leaves))
        entries.append(_open_entry(envelope, keys, leaves))
        _check_key(entries, replaced)
        if entries[-1].claim.model_uuid != entries[0].claim.model_uuid:
            raise Rejected(f"entry {len(leaves)} of the log is of another model")
        leaves.append(leaf_hash(envelope))
    else:
        raise Rejected("the log is cut short: its last line, the checkpoint, is missing")
    if next(rest, None) is not None:
        raise Rejected("there are lines after the log's checkpoint")
    found = as_object(found, "the log's last line", ["checkpoint"])
    checkpoint = open_checkpoint(as_text(found["checkpoint"], "the log's checkpoint"), keys)
    if others := {entry.key.name for entry in entries} - {checkpoint.origin}:
        raise Rejected(f"the log is {checkpoint.origin}'s, and has entries of {min(others)}")
    log = Log(checkpoint=checkpoint, leaves=tuple(leaves), entries=tuple(entries))
    if checkpoint.size != len(leaves) or checkpoint.root != log.root_at(len(leaves)):
        raise Rejected(
            f"the log's {len(leaves)} entries do not give the signed root: entries were changed, "
            "added or left out"
        )
    log.check_signer(checkpoint, "the log's checkpoint")
    return log


def _check_key(entries: Sequence[Entry], replaced: dict[VerifyKey, int]) -> None:
    """Whether the newest entry's key may sign it: a key that another one followed may not."""
    index, key = len(entries) - 1, entries[-1].key
    if index and key != entries[index - 1].key:
        replaced[entries[index - 1].key] = index
    if key in replaced:
        raise Rejected(
            f"entry {index} of the log is signed with {key.id}, which another key replaced at "
            f"entry {replaced[key]}"
        )


def _line(line: bytes, what: str) -> dict[str, object]:
    if not line.endswith(b"\n"):
        raise Rejected(f"{what} is missing or cut short")
    found = read_canonical(line[:-1], what)
    if not isinstance(found, dict):
        raise Rejected(f"{what} is not a JSON object")
    return found


def _envelope(found: object, index: int) -> bytes:
    line = as_object(found, f"entry {index} of the log", ["index", "certificate"])
    if _count(line["index"], f"the index of entry {index} of the log") != index:
        raise Rejected(f"entry {index} of the log is missing")
    return canonical(line["certificate"])


def _open_entry(envelope: bytes, keys: Sequence[VerifyKey], before: Sequence[bytes]) -> Entry:
    """An entry that is signed and names the one before it."""
    where = f"entry {len(before)} of the log"
    try:
        opened = _payload(envelope, PAYLOAD_TYPE, keys)
        entry = Entry(*parse_statement(opened.payload), opened.key)
    except MissingLibrary:
        raise
    except Rejected as error:
        raise Rejected(f"{where}: {error}") from None
    if entry.claim.previous != (before[-1].hex() if before else None):
        raise Rejected(f"{where} does not name the entry before it")
    return entry


def _payload(envelope: bytes, kind: str, keys: Sequence[VerifyKey]) -> Opened:
    """What is in an envelope of unfit, which says itself which key signed it."""
    named = key_id_of(envelope)
    opened = open_envelope(envelope, keys)
    if named != opened.key.id:
        raise Rejected(f"it names the key {named}, and {opened.key.id} signed it")
    if opened.payload_type != kind:
        raise Rejected(f"the envelope holds {opened.payload_type}, and should hold {kind}")
    return opened


# --- arithmetic


def check_claim(claim: Claim) -> None:
    """Whether delta follows from epsilon and mu, for one release and for all of them together."""
    pairs = (
        ("mu_limit", claim.epsilon, claim.mu_limit),
        ("joint_mu", claim.joint_epsilon, claim.joint_mu),
    )
    for name, epsilon, mu in pairs:
        if not delta_of(epsilon, mu) <= claim.delta * (1 + SLACK):
            raise Rejected(
                f"{name} {mu:g} allows delta {delta_of(epsilon, mu):.3g} at epsilon {epsilon:g}, "
                f"which is more than {claim.delta:g}"
            )
    if claim.tol > claim.mu_limit * claim.l2 * claim.noise * (1 + SLACK):
        raise Rejected(
            f"mu_limit is {claim.mu_limit:g}, and a retraining that stops at tol {claim.tol:g} "
            "alone may come to more: tol / (l2 x noise)"
        )
    if claim.joint_mu < claim.mu_limit * (1 - SLACK):
        raise Rejected("joint_mu is less than the limit of a single release")


def check_releases(entries: Sequence[Entry]) -> None:
    """Whether every claim holds and counts the releases before it: squares of mu add up.

    Entries of one version are about one release. Counting starts with the first entry that says
    that rows or ids were deleted, and nothing starts it anew: whoever was deleted sees every
    release since.
    """
    sums, started = [0.0], False  # of squared limits, by release
    for index, entry in enumerate(entries):
        try:
            check_claim(entry.claim)
            _check_order(entry, entries[index - 1] if index else None, started)
            if not index or entry.claim.version != entries[index - 1].claim.version:
                sums.append(sums[-1] + entry.claim.mu_limit * entry.claim.mu_limit)
            total = math.sqrt(sums[-1] - sums[max(0, len(sums) - 1 - entry.claim.releases)])
            if entry.claim.joint_mu < total * (1 - SLACK):
                raise Rejected(
                    f"mu {entry.claim.joint_mu:g} is claimed for all releases together, and they "
                    f"come to {total:g}"
                )
        except Rejected as error:
            raise Rejected(f"entry {index} of the log: {error}") from None
        started = started or entry.claim.deleted > 0 or bool(entry.claim.commitments)


def _check_order(entry: Entry, last: Entry | None, started: bool) -> None:
    """Whether an entry can follow the last one."""
    if last is None:
        return
    same = entry.claim.version == last.claim.version
    if entry.claim.version < last.claim.version:
        raise Rejected("it is of an earlier version than the entry before it")
    if same and entry.released != last.released:
        raise Rejected("it is of the same version as the one before, but differs")
    if entry.claim.deleted < last.claim.deleted:
        raise Rejected(
            f"it counts {entry.claim.deleted} deleted rows, and the entry before it "
            f"{last.claim.deleted}"
        )
    least = last.claim.releases + (not same) if started else 1
    if entry.claim.releases < least:
        raise Rejected(f"it counts {entry.claim.releases} releases, and there were {least}")


@lru_cache(maxsize=1024)
def delta_of(epsilon: float, mu: float) -> float:
    """The delta of two Gaussians that are mu standard deviations apart (Balle and Wang 2018):

        delta(epsilon; mu) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

    Its derivative by mu is the normal density at epsilon / mu - mu / 2, so it is the integral of
    that from 0 to mu, in which nothing cancels; with m = mu e^-u, by Boole's rule on panels that
    double in length, until they add nothing.
    """
    middle = epsilon / mu if mu else math.inf
    p = middle - mu / 2
    if abs(p) > 40:  # beyond the smallest number there is
        return 0.0 if p > 0 else 1.0

    def integrand(u: float) -> float:
        m = mu * math.exp(-u)
        x = epsilon / m - m / 2 if m else math.inf
        return m * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    rate = (1 + abs(p)) * (middle + mu / 2)  # of change at u = 0
    low, high, total, parts = 0.0, 1 / (2 + rate), 0.0, 128
    while True:
        step = (high - low) / parts
        inner = sum((14, 32, 12, 32)[i & 3] * integrand(low + i * step) for i in range(1, parts))
        panel = 2 * step / 45 * (7 * integrand(low) + inner + 7 * integrand(high))
        total += panel
        if low > math.log1p(mu) and panel <= 1e-14 * total:
            return total
        low, high = high, high + min(high, 0.5)


def noise_luck(squares: float, count: int) -> float:
    """How likely a sum of `count` squared standard normals is as far off as this, at most.

    Chernoff's bound of the chi-squared distribution, both sides.
    """
    t = squares / count
    if not 0 < t < math.inf:
        return 0.0
    return min(1.0, 2 * math.exp(min(0.0, count / 2 * (1 - t + math.log(t)))))


# --- with the data: NumPy is imported here, and only here


def weights_in(model: bytes) -> Any:
    """The weights (k, d) in a model's file: safetensors, or the zip file of `unfit export`."""
    np = _numpy()
    try:
        if model.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(model)) as file:
                model = file.read("model.safetensors")
        start = 8 + int.from_bytes(model[:8], "little")
        tensor = json.loads(model[8:start])["weights"]
        first, last = tensor["data_offsets"]
        if tensor["dtype"] == "F64":
            found = np.frombuffer(model[start + first : start + last], "<f8")
            return found.reshape(tensor["shape"])
    except Exception:  # damaged files fail in many ways
        pass
    raise Rejected("the model's file holds no float64 array named weights")


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise MissingLibrary("--data and --centre need NumPy: pip install numpy") from None
    return numpy


def distance_to_optimum(X: Any, targets: Any, centre: Any, l2: float) -> tuple[float, float]:
    """How far the centre (k, d) is from the optimum of these rows, from below and from above.

    Newton's method from the centre on F(w) = sum (p - t) x + l2 n w, whose zero is within
    |F(w)| / (l2 n) of any w.
    """
    np = _numpy()
    ridge, moved, doubt = l2 * len(X), 0.0, 0.0

    def gradient(w: Any, target: Any) -> tuple[Any, Any]:
        p = 0.5 * (1 + np.tanh(X @ w / 2))
        return X.T @ (p - target) + ridge * w, p

    for c, target in zip(centre, targets.T, strict=True):
        w = np.array(c)
        F, p = gradient(w, target)
        for _ in range(100):
            H = (X * (p * (1 - p))[:, None]).T @ X + ridge * np.eye(len(w))
            try:
                step, size = np.linalg.solve(H, F), 1.0
            except np.linalg.LinAlgError:  # what is known so far counts
                break
            while True:  # shorter steps until the gradient shrinks
                trial = w - size * step
                there, p_there = gradient(trial, target)
                if np.linalg.norm(there) < np.linalg.norm(F) or size < 1e-4:
                    break
                size /= 2
            if not np.linalg.norm(there) < np.linalg.norm(F):
                break
            w, F, p = trial, there, p_there
        moved = math.hypot(moved, float(np.linalg.norm(w - c)))
        doubt = math.hypot(doubt, float(np.linalg.norm(F)) / ridge)
    return moved - doubt, moved + doubt


# --- the checks, in order


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a stranger has in hand. Only `keys` are trusted."""

    keys: tuple[VerifyKey, ...]
    certificate: bytes | None = None
    model: bytes | None = None
    annex: bytes | None = None
    checkpoint: str | None = None
    log: Iterable[bytes] | None = None
    salt: bytes | None = None
    identifier: str | None = None
    centre: Any = None  # (k, d)
    rows: Any = None  # (n, d), or without the intercept's column
    targets: Any = None  # (n,) or (n, k), 1 in the class and 0 outside


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    outcome: Literal["ok", "FAILED", "not checked"]
    sentence: str


def printable(text: str) -> str:
    """One line of text: a file cannot move the cursor, or write lines of the report itself."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= 300 else f"{plain[:300]}..."


@dataclass
class Verification:
    """All checks of one certificate, or of a log alone."""

    evidence: Evidence
    checks: list[Check] = field(default_factory=list)
    bundle: Bundle | None = None
    claim: Claim | None = None
    subjects: tuple[Subject, ...] = ()
    signer: VerifyKey | None = None
    checkpoint: Checkpoint | None = None
    log: Log | None = None
    annex: Annex | None = None
    has_model: bool = False

    @property
    def failed(self) -> bool:
        return any(check.outcome == "FAILED" for check in self.checks)

    def run(self) -> "Verification":
        """Every check, in order; one that fails does not keep the others from being made."""
        if self.evidence.certificate is not None:
            self._check("file", self._file)
            self._check("key", self._key)
            self._check("signature", self._signature)
            self._check("inclusion", self._inclusion)
        self._check("log", self._log)
        self._check("consistency", self._consistency)
        if self.evidence.certificate is not None:
            self._check("claim", self._claim)
        self._check("releases", self._releases)
        if self.evidence.certificate is not None:
            self._check("model", self._model)
            self._check("person", self._person)
            self._check("annex", self._annex)
            self._check("distance", self._distance)
            self._check("noise", self._noise)
        return self

    def _check(self, name: str, check: Callable[[], str]) -> None:
        try:
            self.checks.append(Check(name, "ok", printable(check())))
        except MissingLibrary:
            raise
        except NotChecked as reason:
            self.checks.append(Check(name, "not checked", printable(str(reason))))
        except Rejected as error:
            self.checks.append(Check(name, "FAILED", printable(str(error))))

    def _file(self) -> str:
        self.bundle = read_bundle(self.evidence.certificate or b"")
        return "complete, and in the form in which it was written"

    def _read(self) -> Bundle:
        if self.bundle is None:
            raise NotChecked("the file could not be read")
        return self.bundle

    def _claimed(self) -> Claim:
        if self.claim is None:
            raise NotChecked("the certificate's signature does not hold")
        return self.claim

    def _key(self) -> str:
        named = key_id_of(self._read().certificate)
        given = [key.id for key in self.evidence.keys]
        if named not in given:
            raise Rejected(
                f"the certificate names the key {named}, and you gave {', '.join(given)}"
            )
        return f"the certificate names the key {named}, which you gave"

    def _signature(self) -> str:
        opened = _payload(self._read().certificate, PAYLOAD_TYPE, self.evidence.keys)
        self.claim, self.subjects = parse_statement(opened.payload)
        self.signer = opened.key
        claim = self.claim
        return (
            f"{opened.key.name} signed this on {claim.issued}: version {claim.version} of "
            f"{claim.model}, {claim.request}"
        )

    def _inclusion(self) -> str:
        self._claimed()
        proof = parse_proof(self._read().proof)
        found = open_checkpoint(proof.checkpoint, self.evidence.keys)
        if self.signer is None or found.origin != self.signer.name:
            raise Rejected(f"the checkpoint belongs to the log {found.origin}, not the signer's")
        leaf = leaf_hash(self._read().certificate)
        if not verify_inclusion(proof.index, found.size, leaf, proof.path, found.root):
            raise Rejected("the certificate is not in the log at the place that the proof names")
        self.checkpoint = found
        others = found.other_signatures
        ignored = f"; {others} signatures of other keys were not checked" if others else ""
        place = f"entry {proof.index} of the log {found.origin}"
        by = " and ".join(key.id for key in found.keys)
        return f"{place}, signed at size {found.size} with {by}{ignored}"

    def _log(self) -> str:
        if self.evidence.log is None:
            raise NotChecked("give the export of the log with --log")
        log = read_log(self.evidence.log, self.evidence.keys)
        if self.checkpoint is not None:  # of the certificate, which is under its root
            here = self.checkpoint
            if here.origin != log.checkpoint.origin:
                raise Rejected(f"the export is of another log, {log.checkpoint.origin}")
            _check_length(len(log.leaves), here.size, "the certificate's checkpoint")
            if log.root_at(here.size) != here.root:
                raise Rejected("the certificate's checkpoint and the export are of different logs")
            log.check_signer(here, "the certificate's checkpoint")
        self.log = log
        return (
            f"all {len(log.leaves)} entries are signed, each names the one before it, and they "
            "give the signed root"
        )

    def _consistency(self) -> str:
        growth = self.bundle.consistency if self.bundle is not None else None
        now = self.checkpoint
        if growth is not None and now is not None:
            size, root, path = growth
            if not verify_consistency(size, now.size, root, now.root, path):
                raise Rejected("the proof of consistency in the file does not hold")
        if self.evidence.checkpoint is None:
            raise NotChecked("give an older checkpoint that you kept with --checkpoint")
        older = open_checkpoint(self.evidence.checkpoint, self.evidence.keys)
        grown = f"the log has only grown since your checkpoint of size {older.size}"
        if self.log is not None:
            if older.origin != self.log.checkpoint.origin:
                raise Rejected(f"your checkpoint is of another log, {older.origin}")
            _check_length(len(self.log.leaves), older.size, "your checkpoint")
            if self.log.root_at(older.size) != older.root:
                raise Rejected("the log was rewritten since your checkpoint")
            self.log.check_signer(older, "your checkpoint")
            return grown
        return self._consistent_without_log(older, grown)

    def _consistent_without_log(self, older: Checkpoint, grown: str) -> str:
        growth, now = self._read().consistency, self.checkpoint
        if now is None:
            raise NotChecked("the certificate's own checkpoint does not hold")
        if older.origin != now.origin:
            raise Rejected(f"your checkpoint is of another log, {older.origin}")
        if older.size == now.size:
            if older.root != now.root:
                raise Rejected("the log was rewritten since your checkpoint")
            return "your checkpoint is the certificate's own"
        if older.size > now.size:
            raise NotChecked("your checkpoint is newer than the certificate's: give --log as well")
        if growth is None or growth.size != older.size:
            raise NotChecked("the file has no proof for your checkpoint: give --log as well")
        if growth.root != older.root:
            raise Rejected("the log was rewritten since your checkpoint")
        return grown

    def _claim(self) -> str:
        claim = self._claimed()
        check_claim(claim)
        return (
            f"mu {claim.mu_limit:.4g} gives delta {delta_of(claim.epsilon, claim.mu_limit):.3g} at "
            f"epsilon {claim.epsilon:g}; all {claim.releases} releases together: epsilon "
            f"{claim.joint_epsilon:.4g}"
        )

    def _releases(self) -> str:
        if self.log is None:
            raise NotChecked("give the export of the log with --log")
        check_releases(self.log.entries)
        return "the claim of every entry holds, and counts the releases before it"

    def _model(self) -> str:
        self._claimed()
        if self.evidence.model is None:
            raise NotChecked("give the released file with --model")
        found = hashlib.sha256(self.evidence.model).hexdigest()
        for subject in self.subjects:
            if subject.sha256 == found:
                self.has_model = True
                return f"the file is the {subject.name} that the certificate is about"
        raise Rejected("the file is not the one that the certificate is about")

    def _person(self) -> str:
        claim, salt, identifier = self._claimed(), self.evidence.salt, self.evidence.identifier
        if salt is None or identifier is None:
            raise NotChecked("give your id and the salt that you were sent with --id and --salt")
        spelled = (identifier, *(kind + identifier for kind in ID_KINDS))
        if not any(commitment(salt, one) in claim.commitments for one in spelled):
            raise Rejected(
                f"id and salt open none of the {len(claim.commitments)} commitments: this "
                "certificate does not say that you were deleted"
            )
        return "this id is one of those that the certificate says were deleted"

    def _annex(self) -> str:
        claim, bundle = self._claimed(), self._read()
        annexes = [one for one in (self.evidence.annex, bundle.annex) if one is not None]
        if not annexes:
            raise NotChecked("an auditor gives it with --annex")
        for envelope in annexes:
            annex = parse_annex(_payload(envelope, ANNEX_TYPE, self.evidence.keys).payload)
            if annex.entry != leaf_hash(bundle.certificate).hex():
                raise Rejected("the annex belongs to another certificate")
            check_annex(annex, claim)
            self.annex = annex
        return "the commitment to the centre opens, and its distance allows what is claimed"

    def _centre(self) -> Any:
        claim, centre = self._claimed(), self.evidence.centre
        if centre is None:
            raise NotChecked("an auditor gives the weights before noise with --centre")
        if self.annex is None:
            raise NotChecked("without the annex nothing says which centre it was")
        if centre.shape != (claim.problems, claim.columns):
            raise Rejected("the centre's shape is not that of the certificate's weights")
        if hashlib.sha256(centre.astype("<f8").tobytes()).hexdigest() != self.annex.centre_sha256:
            raise Rejected("the centre is not the one that the certificate is committed to")
        if not _numpy().isfinite(centre).all():
            raise Rejected("the centre has values that are not finite")
        return centre

    def _distance(self) -> str:
        claim, X, targets = self._claimed(), self.evidence.rows, self.evidence.targets
        if X is None or targets is None:
            raise NotChecked("an auditor gives the remaining rows with --data")
        centre = self._centre()
        if claim.loss != "logistic":
            raise NotChecked(f"this file knows the logistic loss, and not '{claim.loss}'")
        X, targets = _with_shapes(X, targets, claim)
        with _numpy().errstate(all="ignore"):  # what is no number is not near enough below
            low, high = distance_to_optimum(X, targets, centre, claim.l2)
        stated = self.annex.distance if self.annex is not None else 0.0
        if low > stated:
            raise Rejected(
                f"the centre is {low:.3g} from the optimum of these rows, and the annex says "
                f"{stated:.3g} at most"
            )
        if not high <= stated:
            raise NotChecked(
                f"the optimum of these rows is known here to {high - low:.1g} only, too coarsely"
            )
        return f"the centre is {high:.3g} from the optimum of these rows; stated: {stated:.3g}"

    def _noise(self) -> str:
        claim = self._claimed()
        if self.evidence.model is None or not self.has_model:
            raise NotChecked("it needs --model, with the file that the certificate is about")
        centre, weights = self._centre(), weights_in(self.evidence.model)
        if weights.shape != centre.shape:
            raise Rejected("the model's weights and the centre have different shapes")
        with _numpy().errstate(all="ignore"):  # what is no number is no noise of this size
            squares = float((((weights - centre) / claim.noise) ** 2).sum())
        found = claim.noise * math.sqrt(squares / weights.size)
        measured = f"the noise on {weights.size} weights is {found:.3g}"
        if not noise_luck(squares, weights.size) >= NOISE_LUCK:
            raise Rejected(f"{measured}, and should be {claim.noise:g}")
        return f"{measured}, as {claim.noise:g} should give"


def _check_length(found: int, signed: int, by: str) -> None:
    if found < signed:
        raise Rejected(
            f"{by} counts {signed} entries, and the export {found}: either the export is older, "
            "and you need a newer one, or entries were taken back"
        )


def check_annex(annex: Annex, claim: Claim) -> None:
    """Whether an annex carries the claim: the commitment, mu = (distance + tol / l2) / noise."""
    salt = bytes.fromhex(annex.centre_salt)
    if centre_commitment(salt, annex.centre_sha256) != claim.centre_commitment:
        raise Rejected("the annex does not open the commitment to the centre")
    mu = (annex.distance + claim.tol / claim.l2) / claim.noise
    if not math.isclose(mu, annex.mu, rel_tol=SLACK):
        raise Rejected(f"the annex says mu {annex.mu:g}, and its distance gives {mu:g}")
    if annex.mu > claim.mu_limit * (1 + SLACK):
        raise Rejected(f"mu is {annex.mu:g}, and the certificate allows {claim.mu_limit:g}")
    if annex.bound == "gradient":
        if annex.residual is None:
            raise Rejected("the annex rests on the gradient, and does not state it")
        if annex.residual > annex.distance * claim.l2 * claim.rows * (1 + SLACK):
            raise Rejected("the gradient that the annex states gives a larger distance")


def _with_shapes(X: Any, targets: Any, claim: Claim) -> tuple[Any, Any]:
    """Rows with the intercept's column of ones, and targets (n, k)."""
    np = _numpy()
    if targets.ndim == 1:
        targets = targets[:, None]
    if X.ndim == 2 and X.shape[1] == claim.columns - 1:
        X = np.column_stack([X, np.ones(len(X))])
    if X.shape != (claim.rows, claim.columns) or targets.shape != (claim.rows, claim.problems):
        raise Rejected(
            f"the data have the shapes {X.shape} and {targets.shape}; the certificate is about "
            f"{claim.rows} rows, {claim.columns} columns and {claim.problems} problems"
        )
    if not (np.isfinite(X).all() and np.isin(targets, (0, 1)).all()):
        raise Rejected("the data have values that are not finite, or targets other than 0 and 1")
    return X, targets


# --- the command line


@dataclass(frozen=True, kw_only=True)
class Files:
    """Arguments of the command line, as they were given."""

    certificate: Path | None
    keys: Sequence[str]
    model: Path | None = None
    annex: Path | None = None
    checkpoint: Path | None = None
    log: Path | None = None
    salt: str | None = None
    identifier: str | None = None
    data: Path | None = None
    centre: Path | None = None


class Unreadable(Exception):
    """An argument that cannot be used, in one sentence."""


def verify_files(files: Files) -> Verification:
    """Read what the arguments name, and make every check."""
    if not files.keys:
        raise Unreadable("give the owner's public key with --key; nothing else is trusted")
    if files.certificate is None and files.log is None:
        raise Unreadable("name a certificate's file, or the export of a log with --log")
    if (files.salt is None) != (files.identifier is None):
        raise Unreadable("--salt and --id belong together: give both")
    checkpoint, arrays = _read_file(files.checkpoint), _arrays(files.data)
    annex = _read_file(files.annex)
    with _lines(files.log) as log:
        evidence = Evidence(
            keys=tuple(key for given in files.keys for key in _keys(given)),
            certificate=_read_file(files.certificate),
            model=_read_file(files.model),
            annex=annex.removesuffix(b"\n") if annex is not None else None,
            checkpoint=_text(checkpoint) if checkpoint is not None else None,
            log=log,
            salt=_salt(files.salt) if files.salt is not None else None,
            identifier=_identifier(files.identifier),
            centre=_centre(files.centre),
            **arrays,
        )
        return Verification(evidence).run()


def _read_file(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a zero byte in the name
        raise Unreadable(f"this file's name cannot be used: {error}") from None


@contextmanager
def _lines(path: Path | None) -> Iterator[Iterable[bytes] | None]:
    """The lines of a file, one at a time."""
    if path is None:
        yield None
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield file


def _text(data: bytes) -> str:
    return data.decode(errors="replace")  # what was replaced is not what was signed


def _keys(given: str) -> list[VerifyKey]:
    """A key as text, or those of a file, one a line, as `unfit key show` prints them."""
    try:
        return [VerifyKey.parse(given)]
    except Rejected as error:
        reason = error
    if given.count("+") >= 2:
        raise Unreadable(f"--key: {reason}")
    lines = _text(_read_file(Path(given)) or b"").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(VerifyKey.parse(line))
        except Rejected as error:
            raise Unreadable(f"{given} holds no key in line {number}: {error}") from None
    if not found:
        raise Unreadable(f"{given} holds no key: it is empty")
    return found


def _salt(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Unreadable("--salt is not hexadecimal; copy all of what you were sent") from None


def _identifier(text: str | None) -> str | None:
    try:
        if text is not None:
            text.encode()
    except UnicodeEncodeError:
        raise Unreadable("--id is not text in UTF-8") from None
    return text


def _arrays(path: Path | None) -> dict[str, Any]:
    """Rows and targets of an .npz file with the arrays X and y."""
    if path is None:
        return {}
    np = _numpy()
    try:
        with np.load(path) as file:
            return {"rows": _real(file["X"]), "targets": _real(file["y"])}
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # damaged files fail in many ways
        raise Unreadable(
            f"{path} is not an .npz file with the arrays X and y, of real numbers"
        ) from None


def _centre(path: Path | None) -> Any:
    if path is None:
        return None
    np = _numpy()
    try:
        with path.open("rb") as file:
            return _real(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # damaged files fail in many ways
        raise Unreadable(f"{path} is not an .npy file of weights") from None


def _real(array: Any) -> Any:
    """An array of real numbers in float64; nothing is dropped to make it one."""
    if array.dtype.kind not in "biuf":
        raise ValueError("not of real numbers")
    return array.astype(float)


def report(done: Verification) -> str:
    """The checks as lines, what cannot be proved, and the verdict."""
    lines = [f"{check.outcome:<13}{check.name:<13}{check.sentence}" for check in done.checks]
    lines += ["", "No certificate can prove:", *(f"- {sentence}" for sentence in NOT_PROVED), ""]
    if done.claim is not None and done.claim.not_claimed:
        lines += ["Not claimed:", *(f"- {printable(one)}" for one in done.claim.not_claimed), ""]
    return "\n".join([*lines, verdict(done)])


def verdict(done: Verification) -> str:
    """One sentence: how many checks failed, held, and were not made."""
    counts = Counter(check.outcome for check in done.checks)
    made = f"of {len(done.checks)} checks"
    left = counts["not checked"]
    held = f"{counts['ok']} held and {left} {'was' if left == 1 else 'were'} not made"
    if counts["FAILED"]:
        return f"Do not rely on this: {made} {counts['FAILED']} failed, {held}."
    return f"Nothing failed: {made} {held}."


def report_json(done: Verification) -> str:
    """The same as one JSON object."""
    content = {
        "failed": done.failed,
        "verdict": verdict(done),
        "checks": [asdict(check) for check in done.checks],
        "claim": asdict(done.claim) if done.claim is not None else None,
        "not_proved": NOT_PROVED,
    }
    return json.dumps(content, indent=1)


def show(text: str) -> None:
    """Print it, with question marks for what the screen cannot show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Check a certificate of unfit. Exit status: 0 nothing failed, 1 a check "
        "failed, 2 an argument cannot be used.",
    )
    parser.add_argument("certificate", nargs="?", type=Path, help="the certificate's file")
    add = parser.add_argument
    add("--key", dest="keys", action="append", default=[], help="the owner's key, or its file")
    add("--model", type=Path, help="the released file that the certificate is about")
    add("--annex", type=Path, help="the sealed annex, for auditors")
    add("--checkpoint", type=Path, help="an older checkpoint of the log, which you kept")
    add("--log", type=Path, help="the export of the whole log; also without a certificate")
    add("--salt", help="the salt that you were sent, in hexadecimal; with --id")
    add("--id", dest="identifier", help="your id, as in the owner's records; with --salt")
    add("--data", type=Path, help="the remaining rows, for auditors: .npz with X and y")
    add("--centre", type=Path, help="the weights before noise, for auditors: .npy")
    add("--json", dest="as_json", action="store_true", help="print one JSON object")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what the command line names, and print it."""
    given = vars(_parser().parse_args(arguments))
    as_json = given.pop("as_json")
    try:
        done = verify_files(Files(**given))
    except (Unreadable, MissingLibrary) as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    try:
        show(report_json(done) if as_json else report(done))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
