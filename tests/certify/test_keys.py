"""Keys: their text, their files, and what they sign."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from unfit.certify.keys import PublicKey, SigningKey
from unfit.errors import BadInput

# The example of the C2SP documents' Ed25519 notes.
VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE_SIGNATURE = (
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="
)


def test_a_published_key_and_its_signature() -> None:
    import base64

    key, signature = PublicKey.parse(VKEY), base64.b64decode(NOTE_SIGNATURE)
    assert key.text == VKEY
    assert key.id == "example.com/foo+530d903a"
    assert signature[:4] == key.key_hash
    assert key.verify(b"This is an example message.\n", signature[4:])
    assert not key.verify(b"This is an example message.", signature[4:])


def test_rfc_8032_signature() -> None:
    """Test 1 of RFC 8032, 7.1: the empty message."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(ed25519.Ed25519PrivateKey.from_private_bytes(seed), "x")
    assert key.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


def test_a_key_survives_its_file_and_its_text() -> None:
    key = SigningKey.generate("example.org/churn")
    again = SigningKey.from_pem(key.pem(), "example.org/churn")
    assert again.public == key.public == PublicKey.parse(key.public.text + "\n")
    assert key.public.verify(b"message", again.sign(b"message"))
    assert key.pem().startswith(b"-----BEGIN PRIVATE KEY-----")
    assert key.pem().decode().splitlines()[1] not in repr(key)
    assert SigningKey.generate("example.org/churn").public != key.public


def test_files_that_are_no_keys() -> None:
    key = SigningKey.generate("x")
    password = key._private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key._private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for data in (b"", b"-----BEGIN", key.pem()[:60], key.pem()[:-40], b"\xff" * 90, public):
        with pytest.raises(BadInput, match="not a private key in PEM format, or it is cut short"):
            SigningKey.from_pem(data, "x")
    with pytest.raises(BadInput, match="another algorithm; certificates need Ed25519"):
        SigningKey.from_pem(other, "x")
    with pytest.raises(BadInput, match="protected by a password"):
        SigningKey.from_pem(password, "x")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\tb", "a\u00a0b", "a\u2028b", "a\nb"])
def test_names_that_a_note_cannot_carry(name: str) -> None:
    with pytest.raises(BadInput, match="a key's name has no blanks"):
        SigningKey.generate(name)


def test_texts_that_are_no_keys() -> None:
    name, digest, encoded = VKEY.split("+", 2)
    for text, reason in {
        "": "name\\+hash\\+base64",
        f"{name}+{digest}": "name\\+hash\\+base64",
        f"{name}+{digest}+{encoded[:-1]}": "not base64",
        f"{name}+{digest}+{encoded[:-4]}": "not an Ed25519 key",
        f"{name}+{digest}+BekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k": "not an Ed25519 key",
        f"{name}+530d903b+{encoded}": "do not belong together",
        f"{name}x+{digest}+{encoded}": "do not belong together",
    }.items():
        with pytest.raises(BadInput, match=reason):
            PublicKey.parse(text)
    with pytest.raises(BadInput, match="32 bytes"):
        PublicKey("x", b"short")


def test_without_the_extra_everything_else_works() -> None:
    """A process in which `cryptography` cannot be imported."""
    code = """
import sys
sys.modules["cryptography"] = None
import unfit.certify
from unfit.certify.keys import PublicKey, SigningKey
from unfit.errors import Unavailable
key = PublicKey("x", bytes(32))
for use in (lambda: SigningKey.generate("x"), lambda: SigningKey.from_pem(b"", "x"),
            lambda: key.verify(b"", bytes(64))):
    try:
        use()
    except Unavailable as error:
        assert 'pip install "unfit[certify]"' in str(error), error
    else:
        raise AssertionError("not refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
