"""Certified workspaces for tests, and a check of everything that is handed out of one.

The tree of the log is computed here once more, as RFC 6962 defines it.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from pathlib import Path

import numpy as np
from workspaces import Kept, make

import servers
from unfit.certify.verify import (
    Claim,
    Evidence,
    Verification,
    decode64,
    encode64,
    open_checkpoint,
    open_envelope,
    parse_annex,
    parse_proof,
    parse_statement,
    read_bundle,
    verify_inclusion,
)
from unfit.workspace import Workspace

QUICK = {"epochs = 200": "epochs = 5", "batch_size = 512": "batch_size = 64"}


def make_certified(at: Path, database: servers.Server | None = None, **options: object) -> Kept:
    """Of people, with epsilon 1: copies share their key, and have noise of their own."""
    return make(at, database, **({"random_state": None, "epsilon": 1.0} | options))


def quick(text: str) -> str:
    for old, new in QUICK.items():
        text = text.replace(old, new)
    return text


def edit(kept: Kept, *changes: tuple[str, str]) -> None:
    """Other lines in unfit.toml."""
    toml = kept.folder / "unfit.toml"
    text = toml.read_text()
    for old, new in changes:
        text, count = re.subn(rf"(?m)^{re.escape(old)}", new, text)
        assert count == 1, old
    toml.write_text(text)


def root_of(leaves: list[bytes]) -> bytes:
    """The Merkle tree hash of RFC 6962, 2.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(leaves[:k]) + root_of(leaves[k:])).digest()


def claims_of(ws: Workspace) -> list[Claim]:
    return [parse_statement(one.statement.encode())[0] for one in ws.store.certificates.find()]


def check_records(ws: Workspace) -> None:
    """Each version has its entry and each entry its version; the sums are those of the entries."""
    records = ws.store.certificates.find()
    assert [one.number for one in records] == list(range(len(records)))
    made = [one.version for one in records if one.kind != "kept"]
    assert made == [version.number for version in ws.store.versions.find()]
    squares, releases = 0.0, 0
    for record, claim in zip(records, claims_of(ws), strict=True):
        assert claim.version == record.version
        assert (record.annex is not None) == (record.kind in ("trained", "updated", "retrained"))
        if record.kind != "kept":  # a withdrawal counts as a release, of nothing
            squares, releases = squares + claim.mu_limit**2, releases + 1
        if record.annex is not None:
            assert parse_annex(record.annex.encode()).mu <= claim.mu_limit
        assert math.isclose(claim.joint_mu, math.sqrt(squares), rel_tol=1e-9)
        assert claim.releases == releases
    forgotten = sum(
        item.outcome == "forgotten" for r in ws.store.requests.find() for item in r.items
    )
    assert sum(len(claim.commitments) for claim in claims_of(ws)) == forgotten


def check_log(ws: Workspace) -> None:
    """Everything is signed, in its place, and leads to the checkpoint; nothing is left out."""
    check_records(ws)
    head, keys = ws.certificates.head(), ws.certificates.public_keys()
    assert (head.waiting, head.problem) == (0, None)
    lines = [json.loads(line) for line in b"".join(ws.certificates.export()).splitlines()]
    entries = [_envelope(line["certificate"]) for line in lines[1:-1]]
    assert len(entries) == head.entries
    found = open_checkpoint(lines[-1]["checkpoint"], keys)
    assert lines[-1]["checkpoint"] == head.checkpoint
    assert (found.size, found.root) == (len(entries), root_of(entries))
    before = None
    for record, entry in zip(ws.store.certificates.find(), entries, strict=True):
        payload = open_envelope(entry, keys).payload
        assert payload == record.statement.encode()
        assert parse_statement(payload)[0].previous == before
        before = hashlib.sha256(b"\0" + entry).hexdigest()
        if record.annex is not None:
            assert parse_annex(record.annex.encode()).entry == before
        bundle = read_bundle(ws.certificates.bundle(record))
        proof = parse_proof(bundle.proof)
        assert (bundle.certificate, proof.index, bundle.annex) == (entry, record.number, None)
        leaf = hashlib.sha256(b"\0" + entry).digest()
        assert verify_inclusion(proof.index, found.size, leaf, proof.path, found.root)
    checked = Verification(
        Evidence(
            keys=tuple(keys),
            certificate=ws.certificates.bundle(record, annex=record.annex is not None),
            log=list(ws.certificates.export()),
        )
    ).run()
    assert not checked.failed, checked.checks


def _envelope(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_export(ws: Workspace) -> dict[str, bytes]:
    """The exported weights are those that the newest certificate is about."""
    _, content = ws.export()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    bundle = read_bundle(parts["certificate.json"])
    payload = open_envelope(bundle.certificate, ws.certificates.public_keys()).payload
    _, (subject,) = parse_statement(payload)
    assert subject.name == "model.safetensors"
    assert subject.sha256 == hashlib.sha256(parts["model.safetensors"]).hexdigest()
    return parts


def secrets_of(ws: Workspace) -> dict[str, list[bytes]]:
    """What nobody but an auditor may see, in every way in which it might be written."""
    found: dict[str, list[bytes]] = {}
    with ws.session() as session:
        centre = np.ascontiguousarray(session.open_model().state.centre, "<f8")
    found["centre"] = [value.tobytes() for value in centre.ravel()]
    found["centre as text"] = [repr(float(value)).encode() for value in centre.ravel()]
    for record in ws.store.certificates.find():
        if record.annex is None:
            continue
        annex = json.loads(record.annex)
        for name in ("centre_salt", "centre_sha256"):
            digest = bytes.fromhex(annex[name])
            ways = [annex[name].encode(), digest, encode64(digest).encode()]
            found.setdefault(name, []).extend(ways)
        for name in ("distance", "mu"):
            value = float(annex[name])
            ways = [annex[name], repr(value), f"{value:.1e}", f"{value:g}"]
            found.setdefault(name, []).extend(way.encode() for way in {*ways})
    return found


def opened(text: bytes) -> bytes:
    """The text with all that is encoded in it as base64, decoded."""
    parts = [text]
    for found in re.findall(rb"[A-Za-z0-9+/_-]{40,}={0,2}", text):
        try:
            parts.append(decode64(found.decode(), "text", either=True))
        except ValueError:
            continue
    return b"\n".join(parts)


def held_out_people(ws: Workspace) -> list[str]:
    """Those of whom the model has seen no row."""
    with ws.session() as session:
        dataset = session.dataset()
        names = [dataset.subject_ids.text(i) for i in range(len(dataset.subject_ids))]
        rows = {name: dataset.subject_rows(name) for name in names if name}
    return [n for n, at in rows.items() if at is not None and (at >= dataset.n_train).all()]


def trained_people(ws: Workspace) -> list[str]:
    held = set(held_out_people(ws))
    with ws.session() as session:
        ids = session.dataset().subject_ids
        return [t for i in range(len(ids)) if (t := ids.text(i)) and t not in held]
