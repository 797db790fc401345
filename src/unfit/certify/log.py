"""The log of certificates: an RFC 6962 Merkle tree with C2SP checkpoints and proofs. Pure.

An entry is the bytes of a certificate's envelope. `Frontier` is all that appending needs: the
perfect subtrees of the log, as many as its size has ones in binary. Proofs are made from the leaf
hashes of the whole log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unfit.certify import verify
from unfit.certify.keys import SigningKey
from unfit.certify.rejections import as_bad_input
from unfit.certify.verify import (
    PROOF_HEADER,
    Checkpoint,
    Proof,
    VerifyKey,
    encode64,
    leaf_hash,
    node_hash,
    push,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from unfit.errors import BadInput, Damaged

__all__ = [
    "Checkpoint",
    "Frontier",
    "Proof",
    "checkpoint",
    "consistency_proof",
    "entry_digest",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "open_checkpoint",
    "parse_proof",
    "proof_text",
    "verify_consistency",
    "verify_inclusion",
]


def entry_digest(envelope: bytes) -> str:
    """How the next certificate names this one: its leaf hash, in hexadecimal."""
    return leaf_hash(envelope).hex()


@dataclass(frozen=True)
class Frontier:
    """A log of `size` entries, as its perfect subtrees, largest first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> "Frontier":
        """After one more entry, by its leaf hash; O(log size)."""
        return Frontier(self.size + 1, push(self.peaks, self.size, leaf))

    @property
    def root(self) -> bytes:
        return root_of(self.peaks)

    def to_bytes(self) -> bytes:
        return self.size.to_bytes(8, "big") + b"".join(self.peaks)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frontier":
        size, rest = int.from_bytes(data[:8], "big"), data[8:]
        if len(data) < 8 or len(rest) != 32 * size.bit_count():
            raise Damaged("the record of the log's frontier is damaged; rebuild it from the log")
        return cls(size, tuple(rest[at : at + 32] for at in range(0, len(rest), 32)))


def inclusion_proof(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """The sibling hashes from a leaf up to the root (RFC 6962, 2.1.1)."""
    if not 0 <= index < len(leaves):
        raise BadInput(f"the log has {len(leaves)} entries, and none with the index {index}")
    low, high, path = 0, len(leaves), []
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(_root(leaves, middle, high))
            high = middle
        else:
            path.append(_root(leaves, low, middle))
            low = middle
    return path[::-1]


def consistency_proof(old: int, leaves: Sequence[bytes]) -> list[bytes]:
    """What shows that the first `old` leaves are the beginning of the log (RFC 6962, 2.1.2)."""
    if not 0 <= old <= len(leaves):
        raise BadInput(f"the log has {len(leaves)} entries, which is fewer than {old}")
    if old in {0, len(leaves)}:
        return []
    low, high, known, path = 0, len(leaves), True, []
    while old != high:
        middle = low + _split(high - low)
        if old <= middle:
            path.append(_root(leaves, middle, high))
            high = middle
        else:
            path.append(_root(leaves, low, middle))
            low, known = middle, False
    return ([] if known else [_root(leaves, low, high)]) + path[::-1]


def _split(count: int) -> int:
    """The largest power of two below a count of at least 2."""
    return 1 << (count - 1).bit_length() - 1


def _root(leaves: Sequence[bytes], low: int, high: int) -> bytes:
    """The root of a part of the log."""
    peaks: tuple[bytes, ...] = ()
    for at in range(low, high):
        peaks = push(peaks, at - low, leaves[at])
    return root_of(peaks)


def checkpoint(
    origin: str, size: int, root: bytes, key: SigningKey, extensions: Sequence[str] = ()
) -> str:
    """A signed checkpoint: the log's size and root, for others to keep and compare."""
    if origin != key.public.name:
        raise BadInput(
            f"the log '{origin}' is signed by a key of that name, and this one is named "
            f"'{key.public.name}'"
        )
    lines = [origin, str(size), encode64(root), *extensions]
    if not all(line and line.isprintable() for line in lines):
        raise BadInput("the lines of a checkpoint must be printable, and none of them empty")
    body = "".join(f"{line}\n" for line in lines)
    signature = encode64(key.public.key_hash + key.sign(body.encode()))
    return f"{body}\n\u2014 {key.public.name} {signature}\n"


def open_checkpoint(text: str, keys: Sequence[VerifyKey]) -> Checkpoint:
    """A checkpoint that the key of its origin signed; signatures of unknown keys are ignored."""
    with as_bad_input():
        return verify.open_checkpoint(text, keys)


def proof_text(index: int, path: Sequence[bytes], checkpoint: str) -> str:
    """A C2SP tlog-proof: where an entry stands, the way to the root, and the signed root."""
    lines = [PROOF_HEADER, f"index {index}", *(encode64(node) for node in path)]
    return "".join(f"{line}\n" for line in lines) + f"\n{checkpoint}"


def parse_proof(text: str) -> Proof:
    """A proof from its text."""
    with as_bad_input():
        return verify.parse_proof(text)
