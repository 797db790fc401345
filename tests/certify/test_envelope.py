"""DSSE envelopes: the published vectors, and what is refused."""

import json

import pytest

from unfit.certify.envelope import open_sealed, seal
from unfit.certify.keys import PublicKey, SigningKey
from unfit.certify.verify import pae
from unfit.errors import BadInput

# Keys and signatures of DSSE's test vectors (testvectors/vectors.json in its repository).
A = PublicKey(
    "A", bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
B = PublicKey(
    "B", bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
)
BODY = "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ=="
IN_TOTO = "application/vnd.in-toto+json"
BY_A = "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA=="
BY_B = "c1+67/aT0yqEpwx8PsVY3MLHsj9D0CZ014/Fv/QlG59P+9CobUZ7xECJ/V3USG0Ob9CiE5LjReEZUzNF2l7eBw=="
URL = "P-_KHICeR7tI6S_YyejJTRtrXhcQyQ2LYPaL8h90KjC9qN8HU_svOQ6TuDOT1HIrsGW886DbWNWcCmX5twLrAw=="
UTF8 = "xmSk/ug66ysT7ayhkCIjhAq42zgZXSsEWuzUaNL7w2eGAdF/NU6/fRXPtmfN+5DNSAs5/i2lUnHjbbjPsu0tAw=="
EMPTY = "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg=="
NO_TYPE = "iC3q/+3Rm0+lpAJRueDmDh15PnwCfxKmS0NAfKsbv+zgulXQC/WM9trc+j1XEqlwDIg/vf/uNfebeD6sxInrDg=="


def envelope(payload: str, kind: str, *signatures: str, keyid: str | None = None) -> bytes:
    extra = {} if keyid is None else {"keyid": keyid}
    signed = [{"sig": one, **extra} for one in signatures]
    return json.dumps({"payload": payload, "payloadType": kind, "signatures": signed}).encode()


def test_what_is_signed() -> None:
    """The example of DSSE's protocol.md."""
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("http://example.com/HelloWorld", b"hello world") == expected


@pytest.mark.parametrize(
    ("payload", "kind", "signature", "content"),
    [
        (BODY, IN_TOTO, BY_A, b'{"_type":"https://in-toto.io/Statement/v1"}'),
        ("-_-_Pj8=", IN_TOTO, URL, b"\xfb\xff\xbf>?"),
        (BODY, "application/vnd.ex\u00e4mple+json", UTF8, None),
        ("", IN_TOTO, EMPTY, b""),
    ],
)
def test_published_envelopes_are_opened(
    payload: str, kind: str, signature: str, content: bytes | None
) -> None:
    for keyid in (None, "A", "another hint", ""):
        opened = open_sealed(envelope(payload, kind, signature, keyid=keyid), [B, A])
        assert (opened.payload_type, opened.key) == (kind, A)
        assert content is None or opened.payload == content


def test_one_of_several_signatures_is_enough() -> None:
    data = envelope(BODY, IN_TOTO, BY_A, BY_B)
    assert open_sealed(data, [A]).key == A
    assert open_sealed(data, [B]).key == B


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (envelope(BODY, "application/vnd.example.other+json", BY_A), "none of the given keys"),
        (envelope(BODY, "", NO_TYPE), "payloadType is empty"),
        (envelope(BODY, IN_TOTO, BY_B), "none of the given keys"),
        (envelope(BODY, IN_TOTO), "none of the given keys"),
        (envelope(BODY[:-1], IN_TOTO, BY_A), "payload is not base64"),
        (envelope(BODY + "\n", IN_TOTO, BY_A), "payload is not base64"),
        (envelope("+_+_Pj8=", IN_TOTO, URL), "payload is not base64"),
        (envelope("-_-_Pj9=", IN_TOTO, URL), "payload is not base64"),
        (envelope(BODY, IN_TOTO, BY_A[:40]), "none of the given keys"),
        (b"", "damaged, cut short, or not JSON"),
        (b"[]", "not a JSON object"),
        (envelope(BODY, IN_TOTO, BY_A)[:-1], "damaged, cut short, or not JSON"),
        (envelope(BODY, IN_TOTO, BY_A).replace(b"{", b'{"x":1,', 1), "field 'x'"),
        (envelope(BODY, IN_TOTO, BY_A).replace(b"{", b'{"payload":"",', 1), "not JSON"),
        (envelope(BODY, IN_TOTO, BY_A).replace(b'"payload"', b'"body"'), "no field 'payload'"),
        (b"\xff\xfe", "damaged"),
        (b'{"payload":7,"payloadType":"x","signatures":[]}', "payload is not text"),
        (b'{"payload":"","payloadType":7,"signatures":[]}', "payloadType is not text"),
        (b'{"payload":"","payloadType":"x","signatures":{}}', "signatures is not a list"),
        (b'{"payload":"","payloadType":"x","signatures":[{}]}', "no field 'sig'"),
        (b'{"payload":"","payloadType":"x","signatures":[{"sig":""}]}', "none of the given keys"),
        (b"[" * 100_000, "damaged"),
        (b"1" * 10_000, "damaged"),
    ],
)
def test_what_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        open_sealed(data, [A])


def test_sealed_bytes_come_back_exactly() -> None:
    key = SigningKey.generate("example.org/churn")
    for payload in (b"", b"hello world", bytes(range(256))):
        sealed = seal("application/x", payload, key)
        opened = open_sealed(sealed, [key.public])
        assert (opened.payload_type, opened.payload) == ("application/x", payload)
        assert sealed == seal("application/x", payload, key)
        assert json.loads(sealed)["signatures"][0]["keyid"] == key.public.id
        with pytest.raises(BadInput, match="none of the given keys signed this"):
            open_sealed(sealed, [SigningKey.generate("example.org/churn").public])
        with pytest.raises(BadInput, match="none of the given keys signed this"):
            open_sealed(sealed, [])
