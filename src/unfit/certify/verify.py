"""Check a certificate of unfit. One file, for strangers: it imports Python's standard library and
`cryptography`, and nothing of unfit, so that it can be read from top to bottom and run anywhere:

    python verify.py CERTIFICATE --key KEY [--model FILE] ...        (or: unfit verify ...)

A certificate is an in-toto statement in a DSSE envelope, signed with Ed25519, and an entry of an
RFC 6962 Merkle tree whose signed roots are C2SP checkpoints (docs/verifying.md). Signatures are
checked over exactly the bytes that were signed, and nothing is parsed before. The rest of
unfit.certify writes these formats with the functions of this file; that is why it is longer than
other modules are.
"""

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
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
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Rejected("text with half a surrogate pair cannot be written as UTF-8") from None


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
                f"a key's name has no blanks and no '+', such as example.org/model, got "
                f"'{self.name}'"
            )
        if any(character.isspace() for character in self.name):
            raise Rejected(f"a key's name has no blanks, got '{self.name}'")
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

    It states nominal figures: mu_limit is the largest mu that epsilon and delta allow, and joint_mu
    the root of the sum of the squared limits of all releases since the first deletion. What this
    release came to depends on the rows, and is in the Annex.
    """

    model: str
    model_uuid: str
    request: str  # the request's key, or "training"
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
    deleted: int  # since training
    releases: int  # since the first deletion, this one included
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

    entry: digest of the certificate's entry; residual: |F(centre)| where it was computed.
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
    if not re.fullmatch(shape, as_text(value, what)):
        raise Rejected(f"{what} is not a time such as 2026-01-31T12:00:00Z")
    return str(value)


def _constant(value: object, what: str) -> Constant:
    found = as_object(value, what, ["name", "origin", "version"])
    origin = found["origin"]
    if origin not in {"declared", "fitted"}:
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
    if not (0 < claim.delta < 1 and claim.noise > 0 and claim.l2 > 0 and claim.releases > 0):
        raise Rejected("the certificate's delta, noise, l2 or count of releases is out of range")
    subjects = tuple(_subject(one) for one in as_list(statement["subject"], "the subjects"))
    if not subjects:
        raise Rejected("the statement names no released file")
    return claim, subjects


def _subject(value: object) -> Subject:
    found = as_object(value, "a subject", ["name", "digest"])
    digest = as_object(found["digest"], "a subject's digest", ["sha256"])
    return Subject(
        as_text(found["name"], "a subject's name"), _digest(digest["sha256"], "a subject")
    )


def parse_annex(payload: bytes) -> Annex:
    """The annex. Only for bytes whose signature was verified."""
    return Annex(**_read_record(Annex, read_canonical(payload, "the annex"), "the annex"))


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
