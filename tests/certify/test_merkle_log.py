"""The log: published roots, proofs of every kind, checkpoints and their texts."""

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unfit.certify.keys import PublicKey, SigningKey
from unfit.certify.log import (
    Frontier,
    checkpoint,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    open_checkpoint,
    parse_proof,
    proof_text,
    verify_consistency,
    verify_inclusion,
)
from unfit.errors import BadInput, Damaged

# The reference inputs of Certificate Transparency's implementations, and their roots.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
KEY = SigningKey.generate("example.org/churn")


def naive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return node_hash(naive_root(leaves[:k]), naive_root(leaves[k:]))


def grown(leaves: list[bytes]) -> Frontier:
    found = Frontier()
    for leaf in leaves:
        found = found.append(leaf)
    return found


def some(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % i) for i in range(count)]


def test_published_roots() -> None:
    leaves = [leaf_hash(data) for data in INPUTS]
    for size, root in enumerate(ROOTS):
        assert grown(leaves[:size]).root.hex() == root == naive_root(leaves[:size]).hex()


def test_published_proofs() -> None:
    """Of the same implementations: paths of leaves 0 and 5 in 8, of 2 in 3 and of 1 in 5, and of
    the tree of 6 in that of 8."""
    leaves = [leaf_hash(data) for data in INPUTS]
    right = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
    h23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
    h1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
    h4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
    h67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
    assert [node.hex() for node in inclusion_proof(0, leaves)] == [h1, h23, right]
    assert [node.hex() for node in inclusion_proof(5, leaves)] == [h4, h67, ROOTS[4]]
    assert [node.hex() for node in inclusion_proof(2, leaves[:3])] == [ROOTS[2]]
    assert [node.hex() for node in inclusion_proof(1, leaves[:5])] == [ROOTS[1], h23, h4]
    h45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
    assert [node.hex() for node in consistency_proof(6, leaves)] == [h45, h67, ROOTS[4]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33])
def test_every_proof_of_a_small_log(size: int) -> None:
    leaves = some(size)
    root = naive_root(leaves)
    for index in range(size):
        path = inclusion_proof(index, leaves)
        for other in range(size + 2):
            held = verify_inclusion(other, size, leaves[index], path, root)
            assert held == (other == index)
    for old in range(size + 1):
        path = consistency_proof(old, leaves)
        for other in range(size + 2):
            claimed = naive_root(leaves[:other])
            held = verify_consistency(other, size, claimed, root, path)
            assert held == (other == old or (not path and other in {0, size}))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_proofs_hold_and_changed_ones_do_not(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 300))
    leaves = some(size)
    root, index = grown(leaves).root, data.draw(st.integers(0, size - 1))
    assert root == naive_root(leaves)
    old = data.draw(st.integers(0, size))
    old_root = naive_root(leaves[:old])
    path, growth = inclusion_proof(index, leaves), consistency_proof(old, leaves)
    assert verify_inclusion(index, size, leaves[index], path, root)
    assert verify_consistency(old, size, old_root, root, growth)
    bit = data.draw(st.integers(0, 255))
    for changed in (*_mutations(path, bit),):
        assert not verify_inclusion(index, size, leaves[index], changed, root)
    for changed in (*_mutations(growth, bit),):
        assert not verify_consistency(old, size, old_root, root, changed)
    assert not verify_inclusion(index, size, _flipped(leaves[index], bit), path, root)
    assert not verify_inclusion(index, size, leaves[index], path, _flipped(root, bit))
    assert not verify_consistency(old, size, _flipped(old_root, bit), root, growth)
    if old:
        assert not verify_consistency(old, size, old_root, _flipped(root, bit), growth)


def _mutations(path: list[bytes], bit: int) -> list[list[bytes]]:
    """Every node with a flipped bit, every node left out, and one too many."""
    found = [[*path, bytes(32)]]
    for at in range(len(path)):
        found.append([*path[:at], _flipped(path[at], bit), *path[at + 1 :]])
        found.append([*path[:at], *path[at + 1 :]])
    return found


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2000))
def test_a_frontier_survives_its_bytes_and_stays_small(size: int) -> None:
    frontier = grown(some(size))
    again = Frontier.from_bytes(frontier.to_bytes())
    assert again == frontier
    assert frontier.root == naive_root(some(size))
    assert len(frontier.to_bytes()) == 8 + 32 * size.bit_count()
    assert again.append(leaf_hash(b"x")).root == naive_root([*some(size), leaf_hash(b"x")])


@pytest.mark.parametrize("data", [b"", b"\x00" * 7, (3).to_bytes(8, "big") + bytes(32)])
def test_a_damaged_frontier(data: bytes) -> None:
    with pytest.raises(Damaged, match="frontier is damaged; rebuild it from the log"):
        Frontier.from_bytes(data)


def test_proofs_of_what_is_not_there() -> None:
    with pytest.raises(BadInput, match="the log has 3 entries, and none with the index 3"):
        inclusion_proof(3, some(3))
    with pytest.raises(BadInput, match="the log has 3 entries, which is fewer than 4"):
        consistency_proof(4, some(3))
    assert not verify_inclusion(0, 0, bytes(32), [], bytes(32))
    assert not verify_consistency(4, 3, bytes(32), bytes(32), [])


def test_a_checkpoint_says_what_was_signed() -> None:
    text = checkpoint("example.org/churn", 3, naive_root(some(3)), KEY)
    found = open_checkpoint(text, [KEY.public])
    assert (found.origin, found.size, found.root) == ("example.org/churn", 3, naive_root(some(3)))
    assert (found.extensions, found.keys, found.other_signatures) == ((), (KEY.public,), 0)
    lines = text.split("\n")
    assert lines[:2] == ["example.org/churn", "3"]
    assert lines[3] == ""
    assert lines[4].startswith("\u2014 example.org/churn ")
    more = checkpoint("example.org/churn", 3, naive_root(some(3)), KEY, ["a line"])
    assert open_checkpoint(more, [KEY.public]).extensions == ("a line",)


def test_signatures_of_witnesses_are_ignored_or_checked() -> None:
    text = checkpoint("example.org/churn", 3, naive_root(some(3)), KEY)
    body = text[: text.index("\n\n") + 1]
    witness = SigningKey.generate("witness.example")
    seen = base64.b64encode(witness.public.key_hash + witness.sign(body.encode())).decode()
    both = f"{text}\u2014 witness.example {seen}\n"
    assert open_checkpoint(both, [KEY.public]).other_signatures == 1
    assert open_checkpoint(both, [KEY.public, witness.public]).keys == (KEY.public, witness.public)
    with pytest.raises(BadInput, match="of the log 'example.org/churn', and was signed by witness"):
        open_checkpoint(both, [witness.public])
    wrong = base64.b64encode(witness.public.key_hash + bytes(64)).decode()
    with pytest.raises(BadInput, match="the signature of witness.example .* does not hold"):
        open_checkpoint(f"{text}\u2014 witness.example {wrong}\n", [KEY.public, witness.public])
    assert open_checkpoint(f"{text}\u2014 witness.example {wrong}\n", [KEY.public]).size == 3


def resigned(body: str) -> str:
    signature = base64.b64encode(KEY.public.key_hash + KEY.sign(body.encode())).decode()
    return f"{body}\n\u2014 {KEY.public.name} {signature}\n"


def test_checkpoints_that_are_refused() -> None:
    root = base64.b64encode(bytes(32)).decode()
    text = checkpoint("example.org/churn", 3, bytes(32), KEY)
    for changed, reason in {
        "": "not a signed note",
        text[:-1]: "not a signed note",
        text.replace("\n\n", "\n"): "not a signed note",
        text.replace("\n3\n", "\n4\n"): "does not hold",
        text + text.splitlines()[-1] + "\n": "does not hold",  # signed twice
        text.replace("\u2014", "-"): "line of signature",
        text.replace("\n3\n", "\n3\r\n"): "not a signed note",
        text[: text.index("\u2014")]: "no signature",
        resigned("example.org/churn\n3\n"): "an origin, a size and a root",
        resigned(f"example.org/churn\n\n3\n{root}\n"): "an origin, a size and a root",
        resigned(f"example.org/other\n3\n{root}\n"): "of the log 'example.org/other'",
        resigned(f"example.org/churn\n03\n{root}\n"): "size is not a whole number",
        resigned(f"example.org/churn\n-3\n{root}\n"): "size is not a whole number",
        resigned(f"example.org/churn\n\u0663\n{root}\n"): "size is not a whole number",
        resigned(f"example.org/churn\n3\n{root[:-4]}\n"): "root is not",
    }.items():
        with pytest.raises(BadInput, match=reason):
            open_checkpoint(changed, [KEY.public])
    other = SigningKey.generate("example.org/churn").public
    with pytest.raises(BadInput, match="none of the given keys signed the checkpoint"):
        open_checkpoint(text, [other])
    with pytest.raises(BadInput, match="a key of that name"):
        checkpoint("example.org/other", 3, bytes(32), KEY)
    for line in ("", "two\nlines"):
        with pytest.raises(BadInput, match="lines of a checkpoint must be printable"):
            checkpoint("example.org/churn", 3, bytes(32), KEY, [line])


def test_a_proof_survives_its_text() -> None:
    leaves = some(5)
    text = checkpoint("example.org/churn", 5, naive_root(leaves), KEY)
    for index in range(5):
        path = inclusion_proof(index, leaves)
        written = proof_text(index, path, text)
        found = parse_proof(written)
        assert (found.index, list(found.path), found.checkpoint) == (index, path, text)
        assert written.startswith(f"c2sp.org/tlog-proof@v1\nindex {index}\n")
    alone = parse_proof(proof_text(0, [], text))
    assert alone.path == ()


def test_proofs_that_are_refused() -> None:
    text = proof_text(1, inclusion_proof(1, some(3)), "checkpoint\n")
    for changed, reason in {
        "": "damaged or cut short",
        text.split("\n\n")[0]: "damaged or cut short",
        text.replace("@v1", "@v2"): "not of the kind",
        text.replace("index 1", "index 01"): "not a whole number",
        text.replace("index 1", "extra AA==\nindex 1"): "damaged or cut short",
        text.replace("=\n", "\n", 1): "not base64",
        text.replace("index 1\n", "index 1\nAAAA\n"): "not a SHA-256 hash",
    }.items():
        with pytest.raises(BadInput, match=reason):
            parse_proof(changed)


def test_a_published_checkpoint_s_key_hash() -> None:
    """The key's hash stands in front of the signature, as C2SP's documents show it."""
    key = PublicKey.parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    assert key.key_hash.hex() == "530d903a"
