"""DSSE envelopes: a payload, what kind it is, and a signature over both. Bytes in, bytes out."""

from collections.abc import Sequence

from unfit.certify.keys import SigningKey
from unfit.certify.rejections import as_bad_input
from unfit.certify.verify import Opened, VerifyKey, canonical, encode64, open_envelope, pae

__all__ = ["Opened", "open_sealed", "seal"]


def seal(payload_type: str, payload: bytes, key: SigningKey) -> bytes:
    """An envelope around exactly these bytes."""
    signature = {"keyid": key.public.id, "sig": encode64(key.sign(pae(payload_type, payload)))}
    envelope = {
        "payload": encode64(payload),
        "payloadType": payload_type,
        "signatures": [signature],
    }
    with as_bad_input():
        return canonical(envelope)


def open_sealed(envelope: bytes, keys: Sequence[VerifyKey]) -> Opened:
    """What is in an envelope, if one of these keys signed it; both alphabets of base64 will do.

    Parse the payload only after this. The key id in the envelope is a hint that nothing rests on.
    """
    with as_bad_input():
        return open_envelope(envelope, keys)
