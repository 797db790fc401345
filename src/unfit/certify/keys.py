"""The keys that sign certificates and checkpoints: Ed25519, each under a name. No files.

A name is the origin of the log that the key signs for, such as example.org/churn. `cryptography`
is imported where a key is used, because certificates are an extra of the install.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unfit.certify.rejections import INSTALL, as_bad_input
from unfit.certify.verify import VerifyKey
from unfit.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class PublicKey(VerifyKey):
    """What others need to check signatures, and pin: `text` is how it is handed on."""

    def __post_init__(self) -> None:
        with as_bad_input():
            super().__post_init__()

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """A key from its text, name+hash+base64."""
        with as_bad_input():
            key = VerifyKey.parse(text)
        return cls(key.name, key.raw)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed exactly these bytes."""
        with as_bad_input():
            return super().verify(message, signature)


class SigningKey:
    """A private key. Whoever holds it can issue certificates in the owner's name."""

    def __init__(self, private: "Ed25519PrivateKey", name: str) -> None:
        self._private = private
        self.public = PublicKey(name, private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, name: str) -> "SigningKey":
        """A new key from the operating system's randomness."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError:
            raise Unavailable(INSTALL) from None
        return cls(Ed25519PrivateKey.generate(), name)

    @classmethod
    def from_pem(cls, data: bytes, name: str) -> "SigningKey":
        """A key from a PEM file without a password."""
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise Unavailable(INSTALL) from None
        try:
            private = load_pem_private_key(data, password=None)
        except (ValueError, UnsupportedAlgorithm):
            raise BadInput(
                "the signing key is not a private key in PEM format, or it is cut short; restore "
                "the file or make a new key"
            ) from None
        except TypeError:
            raise BadInput(
                "the signing key is protected by a password; store it without one, in a file that "
                "only its owner can read"
            ) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise BadInput("the signing key is of another algorithm; certificates need Ed25519")
        return cls(private, name)

    def pem(self) -> bytes:
        """The key as a PEM file (PKCS #8), without a password."""
        from cryptography.hazmat.primitives import serialization

        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"SigningKey({self.public.id!r})"
