"""The key that signs certificates: a file that only its owner can read.

The records hold the public keys in the order in which they came into use. A key that is missing, or
that is not the one in use, signs nothing: certificates wait for it, and forgetting goes on.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from unfit import disk
from unfit.certify.envelope import seal
from unfit.certify.keys import PublicKey, SigningKey
from unfit.certify.log import Frontier, checkpoint, entry_digest
from unfit.certify.statement import (
    annex_bytes,
    parse_annex,
    parse_statement,
    statement_bytes,
)
from unfit.certify.verify import PAYLOAD_TYPE
from unfit.errors import BadInput, Unavailable
from unfit.store.certificates import Certificates
from unfit.store.records import NewCertificate

SIGNED_NEXT = "the next erasure or `unfit key sign` signs them"  # where nothing is wrong


def key_name(workspace: str) -> str:
    """How signatures name a workspace, by its id: it is the origin of the log."""
    return f"unfit/{workspace}"


def make_key(path: Path, name: str) -> SigningKey:
    """A new key in a file, which is kept if there is one already."""
    if path.exists():
        return SigningKey.from_pem(path.read_bytes(), name)
    key = SigningKey.generate(name)
    disk.write(path, key.pem())
    return key


class KeyFile:
    """name: of the workspace, as signatures name it."""

    def __init__(
        self, path: Path, name: str, records: Certificates, clock: Callable[[], datetime]
    ) -> None:
        self.path, self.name = path, name
        self._records, self._clock = records, clock

    def public_keys(self) -> list[PublicKey]:
        """Every key that was in use, the newest last."""
        return [PublicKey.parse(text) for text in self._records.public_keys()]

    def require(self) -> SigningKey:
        """The key in use, or a sentence that says what is wrong with it."""
        key = self._read()
        known = self._records.public_keys()
        if known and key.public.text != known[-1]:
            raise Unavailable(
                f"{self.path.name} is not the key this workspace signs with; put that one back, or "
                "go on with a new one (`unfit key rotate --lost`)"
            )
        return key

    def problem(self) -> str | None:
        """Why nothing can be signed, in a sentence; None if all is well."""
        try:
            self.require()
        except (BadInput, Unavailable) as error:
            return str(error)
        return None

    def begin(self) -> None:
        """Before the first certificate: there is a key, and the records name it."""
        if self._records.public_keys():
            return
        key = self._read() if self.path.exists() else make_key(self.path, self.name)
        self._records.add_key(key.public.text, self._clock())

    def rotate(self, *, lost: bool) -> PublicKey:
        """Sign with a new key from now on. The old one must be there, unless it is lost.

        The old file is replaced: whoever has a copy can still sign with it, so tell those who check
        certificates that it is out of use since now.
        """
        if not lost:
            self.require()
        key = SigningKey.generate(self.name)
        disk.write(self.path, key.pem())
        self._records.add_key(key.public.text, self._clock())
        return key.public

    def _read(self) -> SigningKey:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise Unavailable(
                f"the signing key {self.path.name} is missing; put it back, or go on with a new "
                "one (`unfit key rotate --lost`)"
            ) from None
        except OSError as error:
            raise Unavailable(f"{self.path.name} cannot be read: {error.strerror}") from None
        try:
            return SigningKey.from_pem(content, self.name)
        except BadInput as error:
            raise BadInput(f"{self.path.name}: {error}") from None


def signed(entry: NewCertificate, before: NewCertificate | None, key: SigningKey) -> NewCertificate:
    """The entry as the log takes it up: it names the one before it, and is signed.

    before: the last entry of the log, which is signed.
    """
    frontier = Frontier()
    claim, (subject,) = parse_statement(entry.statement.encode())
    if before is not None:
        assert before.leaf is not None
        assert before.frontier is not None
        frontier = Frontier.from_bytes(bytes.fromhex(before.frontier))
    claim = replace(claim, previous=None if before is None else before.leaf)
    statement = statement_bytes(claim, subject.name, subject.sha256)
    envelope = seal(PAYLOAD_TYPE, statement, key)
    leaf = entry_digest(envelope)
    frontier = frontier.append(bytes.fromhex(leaf))
    annex = entry.annex
    if annex is not None:
        annex = annex_bytes(replace(parse_annex(annex.encode()), entry=leaf)).decode()
    return replace(
        entry,
        statement=statement.decode(),
        annex=annex,
        envelope=envelope.decode(),
        leaf=leaf,
        frontier=frontier.to_bytes().hex(),
        checkpoint=checkpoint(key.public.name, frontier.size, frontier.root, key),
    )


def sign_waiting(records: Certificates, key: SigningKey) -> int:
    """Sign the certificates that wait for a key, in their order; how many there were."""
    waiting = records.find(signed=False)
    for entry in waiting:
        found = records.find(number=entry.number - 1) if entry.number else []
        records.sign(signed(entry, found[0] if found else None, key))
    return len(waiting)
