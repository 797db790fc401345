"""The verifier: what holds is accepted, and nothing else is."""

import ast
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cryptography
import mpmath
import numpy as np
import pytest
from certificates import DELTA, EPSILON, NOISE, ORIGIN, SALT, Owner
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save
from scipy import stats
from typer.testing import CliRunner

from unfit.certify import verify
from unfit.certify.accountant import epsilon_of
from unfit.certify.bundle import bundle, export_lines, read
from unfit.certify.envelope import open_sealed, seal
from unfit.certify.keys import SigningKey
from unfit.certify.log import (
    Frontier,
    checkpoint,
    consistency_proof,
    entry_digest,
    inclusion_proof,
    leaf_hash,
    proof_text,
)
from unfit.certify.statement import (
    Annex,
    Claim,
    annex_bytes,
    parse_annex,
    parse_statement,
    statement_bytes,
)
from unfit.certify.verify import ANNEX_TYPE, Evidence, Verification, encode64
from unfit.cli import app
from unfit.errors import BadInput

CHECKS = [
    "file",
    "key",
    "signature",
    "inclusion",
    "log",
    "consistency",
    "claim",
    "releases",
    "model",
    "person",
    "annex",
    "distance",
    "noise",
]


@pytest.fixture(scope="module")
def owner() -> Owner:
    """A training and six deletions."""
    made = Owner()
    made.train()
    for row in (17, 3, 250, 399, 20, 21):
        made.forget(row)
    return made


def everything(owner: Owner, index: int = 4, **changes: object) -> Evidence:
    """All that an auditor could have of one certificate."""
    rows = owner.remaining[index]
    full = Evidence(
        keys=(owner.key.public,),
        certificate=owner.bundle(index, annex=True, since=3),
        model=owner.models[index],
        annex=owner.annexes[index],
        checkpoint=owner.checkpoint(3),
        log=owner.export().splitlines(keepends=True),
        salt=SALT,
        identifier="person-399",
        centre=owner.centres[index],
        rows=owner.X[rows],
        targets=owner.y[rows],
    )
    return replace(full, **changes)  # type: ignore[arg-type]


def outcomes(evidence: Evidence) -> dict[str, str]:
    return {check.name: check.outcome for check in Verification(evidence).run().checks}


def sentence(evidence: Evidence, name: str) -> str:
    """What a check says that must have failed."""
    done = Verification(evidence).run()
    check = next(check for check in done.checks if check.name == name)
    assert check.outcome == "FAILED", check
    assert done.failed
    return check.sentence


def said(evidence: Evidence, name: str) -> str:
    """What a check says, whatever came out."""
    return next(c.sentence for c in Verification(evidence).run().checks if c.name == name)


def test_what_holds_is_accepted(owner: Owner) -> None:
    assert outcomes(everything(owner)) == dict.fromkeys(CHECKS, "ok")


@pytest.mark.parametrize("index", range(7))
def test_every_certificate_of_the_log(owner: Owner, index: int) -> None:
    rows = owner.remaining[index]
    evidence = everything(owner, index, identifier=None, salt=None, targets=owner.y[rows][:, None])
    expected = dict.fromkeys(CHECKS, "ok") | {"person": "not checked"}
    assert outcomes(evidence) == expected


def test_what_is_not_given_is_not_checked(owner: Owner) -> None:
    found = outcomes(Evidence(keys=(owner.key.public,), certificate=owner.bundle(0)))
    made = {"file", "key", "signature", "inclusion", "claim"}
    assert found == {name: "ok" if name in made else "not checked" for name in CHECKS}


# --- changed, cut and foreign files


def flips(owner: Owner, count: int, rng: random.Random) -> None:
    """Flip one bit at a time in what is handed on, and in what is compared with it."""
    evidence = Evidence(
        keys=(owner.key.public,),
        certificate=owner.bundle(4, annex=True, since=3),
        model=owner.models[4],
        annex=owner.annexes[4],
    )
    assert not Verification(evidence).run().failed
    parts = {name: getattr(evidence, name) for name in ("certificate", "model", "annex")}
    for _ in range(count):
        name = rng.choices(list(parts), [len(part) for part in parts.values()])[0]
        changed = bytearray(parts[name])
        bit = rng.randrange(8 * len(changed))
        changed[bit // 8] ^= 1 << bit % 8
        done = Verification(replace(evidence, **{name: bytes(changed)})).run()
        assert done.failed, f"bit {bit} of the {name} was flipped, and nothing was noticed"


def test_a_flipped_bit_is_noticed(owner: Owner) -> None:
    flips(owner, 500, random.Random(0))


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_noticed(owner: Owner) -> None:
    flips(owner, 10_000, random.Random(1))


def test_a_flipped_bit_of_a_log_or_a_checkpoint_is_noticed(owner: Owner) -> None:
    rng = random.Random(2)
    export, older = owner.export(), owner.checkpoint(3).encode()
    for data, at in ((export, "log"), (older, "checkpoint")):
        for _ in range(300):
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            evidence = Evidence(
                keys=(owner.key.public,),
                log=(bytes(changed) if at == "log" else export).splitlines(keepends=True),
                checkpoint=bytes(changed if at == "checkpoint" else older).decode(errors="replace"),
            )
            assert Verification(evidence).run().failed


def test_cut_files_are_noticed(owner: Owner) -> None:
    whole, export = owner.bundle(4, annex=True), owner.export()
    rng = random.Random(3)
    for _ in range(100):
        cut = whole[: rng.randrange(len(whole))]
        assert "cut short" in sentence(everything(owner, certificate=cut), "file")
        part = export[: rng.randrange(len(export))].splitlines(keepends=True)
        said = sentence(everything(owner, log=part), "log")
        assert re.search("cut short|damaged", said)


def test_bytes_that_mean_the_same_are_refused(owner: Owner) -> None:
    """Blanks, another order, repeated names, other base64: nothing of it was written by unfit."""
    whole = owner.bundle(4, annex=True)
    content = json.loads(whole)
    pretty = json.dumps(content, indent=1).encode() + b"\n"
    turned = json.dumps(dict(reversed(content.items())), separators=(",", ":")).encode() + b"\n"
    repeated = whole.replace(b'{"annex"', b'{"annex":{},"annex"')
    escaped = whole.replace(b'"mediaType"', b'"\\u006dediaType"')
    ends = (whole + b"\n", b" " + whole, whole[:-1], whole[:-1] + b" ", whole[:-1] + b"\r")
    for changed in (pretty, turned, repeated, escaped, *ends):
        assert changed != whole
        assert sentence(everything(owner, certificate=changed), "file")
    content["annex"]["signatures"][0]["keyid"] = "example.org/churn+00000000"
    renamed = verify.canonical(content) + b"\n"
    assert "names the key" in sentence(everything(owner, certificate=renamed), "annex")
    content = json.loads(whole)
    content["annex"]["signatures"].append({"keyid": "x", "sig": ""})
    twice = verify.canonical(content) + b"\n"
    assert "one signature" in sentence(everything(owner, certificate=twice), "annex")
    content = json.loads(whole)
    content["extra"] = 1
    unknown = verify.canonical(content) + b"\n"
    assert "field 'extra'" in sentence(everything(owner, certificate=unknown), "file")


def test_another_key(owner: Owner) -> None:
    other = SigningKey.generate(ORIGIN).public
    stranger = everything(owner, keys=(other,))
    assert f"and you gave {other.id}" in sentence(stranger, "key")
    assert "none of the given keys signed this" in sentence(stranger, "signature")
    found = outcomes(stranger)
    assert "ok" not in {found[name] for name in CHECKS if name != "file"}
    both = everything(owner, keys=(other, owner.key.public))
    assert set(outcomes(both).values()) == {"ok"}


def test_a_file_cannot_write_lines_of_the_report(owner: Owner) -> None:
    content = json.loads(owner.bundle(4))
    trick = "x\nok           signature    \x1b[32mall is well\u202e" + "x" * 1000
    content["certificate"]["signatures"][0]["keyid"] = trick
    forged = verify.canonical(content) + b"\n"
    done = Verification(everything(owner, certificate=forged)).run()
    printed = verify.report(done)
    assert not re.search("^ok +signature", printed, re.M)
    assert all(c.isprintable() or c == "\n" for c in printed)
    assert max(len(line) for line in printed.splitlines()) < 350


def test_newer_versions_say_so(owner: Owner) -> None:
    whole = owner.bundle(4)
    newer = whole.replace(b"certificate.v1+json", b"certificate.v2+json")
    assert "use a newer verifier" in sentence(everything(owner, certificate=newer), "file")
    payload = open_sealed(owner.entries[4], [owner.key.public]).payload
    entry = owner.sealed(payload.replace(b"certificate:v1", b"certificate:v2"))
    found = everything(owner, certificate=logged(owner, [entry], 0))
    assert "use a newer verifier" in sentence(found, "signature")
    export = owner.export().replace(b"log.v1+jsonl", b"log.v2+jsonl").splitlines(keepends=True)
    assert "newer version" in sentence(everything(owner, log=export), "log")


def logged(owner: Owner, entries: list[bytes], index: int, key: SigningKey | None = None) -> bytes:
    """A bundle from a log of other entries."""
    signer = key or owner.key
    leaves = [leaf_hash(entry) for entry in entries]
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    signed = checkpoint(signer.public.name, frontier.size, frontier.root, signer)
    return bundle(entries[index], proof_text(index, inclusion_proof(index, leaves), signed))


def test_a_checkpoint_of_another_log(owner: Owner) -> None:
    other = SigningKey.generate("example.org/other")
    keys = (owner.key.public, other.public)
    mixed = everything(owner, keys=keys, certificate=logged(owner, owner.entries, 4, other))
    assert "not the signer's" in sentence(mixed, "inclusion")
    foreign = checkpoint("example.org/other", 3, bytes(32), other)
    for evidence in (
        everything(owner, keys=keys, checkpoint=foreign),
        everything(owner, keys=keys, checkpoint=foreign, log=None),
    ):
        assert "another log, example.org/other" in sentence(evidence, "consistency")


def test_a_log_that_another_key_signed(owner: Owner) -> None:
    """Each of both keys was given; but one log has one origin."""
    other, frontier = SigningKey.generate("example.org/other"), Frontier()
    for leaf in owner.leaves:
        frontier = frontier.append(leaf)
    signed = checkpoint("example.org/other", frontier.size, frontier.root, other)
    mixed = list(export_lines(owner.entries, signed))
    evidence = Evidence(keys=(owner.key.public, other.public), log=mixed)
    assert "has entries of example.org/churn" in sentence(evidence, "log")
    theirs = []
    for entry in owner.entries[:1]:
        payload = open_sealed(entry, [owner.key.public]).payload
        theirs.append(seal(verify.PAYLOAD_TYPE, payload, other))
    grown = Frontier().append(leaf_hash(theirs[0]))
    whole = list(export_lines(theirs, checkpoint("example.org/other", 1, grown.root, other)))
    assert not Verification(replace(evidence, log=whole)).run().failed
    both = replace(evidence, log=whole, certificate=owner.bundle(0))
    assert "the export is of another log, example.org/other" in sentence(both, "log")


def test_a_certificate_that_is_not_in_the_log(owner: Owner) -> None:
    parts = read(owner.bundle(4))
    swapped = bundle(owner.entries[3], parts.proof)
    assert "not in the log" in sentence(everything(owner, certificate=swapped), "inclusion")
    elsewhere = parts.proof.replace("index 4", "index 3")
    moved = bundle(parts.certificate, elsewhere)
    assert "not in the log" in sentence(everything(owner, certificate=moved), "inclusion")


# --- the log


def test_a_log_alone(owner: Owner) -> None:
    lines = owner.export().splitlines(keepends=True)
    found = outcomes(Evidence(keys=(owner.key.public,), log=lines, checkpoint=owner.checkpoint(3)))
    assert found == {"log": "ok", "consistency": "ok", "releases": "ok"}


def test_a_log_that_was_tampered_with(owner: Owner) -> None:
    lines = owner.export().splitlines(keepends=True)
    head, *entries, last = lines
    swapped = [head, entries[1], entries[0], *entries[2:], last]
    assert "entry 0 of the log is missing" in sentence(everything(owner, log=swapped), "log")
    left_out = [head, *entries[:-1], last]
    assert "do not give the signed root" in sentence(everything(owner, log=left_out), "log")
    for cut in ([head], [head, *entries]):
        assert "the checkpoint, is missing" in sentence(everything(owner, log=cut), "log")
    longer = [*lines, entries[0]]
    assert "lines after" in sentence(everything(owner, log=longer), "log")
    assert "not the export of a log" in sentence(everything(owner, log=entries), "log")
    for line in (b"[]\n", b"7\n", b'"checkpoint"\n'):
        damaged = [head, line, *entries, last]
        assert "not a JSON object" in sentence(everything(owner, log=damaged), "log")
    assert "first line is missing" in sentence(everything(owner, log=[]), "log")


def test_a_key_that_was_replaced_signs_nothing_more(owner: Owner) -> None:
    first, second = owner.key, SigningKey.generate(ORIGIN)

    def outcome(signers: list[SigningKey], head: SigningKey) -> str:
        entries: list[bytes] = []
        for at, key in enumerate(signers):
            claim, (subject,) = parse_statement(
                open_sealed(owner.entries[at], [first.public]).payload
            )
            previous = entry_digest(entries[-1]) if entries else None
            statement = statement_bytes(
                replace(claim, previous=previous), subject.name, subject.sha256
            )
            entries.append(seal(verify.PAYLOAD_TYPE, statement, key))
        tree = Frontier()
        for entry in entries:
            tree = tree.append(leaf_hash(entry))
        lines = export_lines(entries, checkpoint(ORIGIN, tree.size, tree.root, head))
        keys = (first.public, second.public)
        return said(Evidence(keys=keys, log=list(lines)), "log")

    assert outcome([first, first, second], second).startswith("all 3 entries are signed")
    assert outcome([first, second, first], first) == (
        f"entry 2 of the log is signed with {first.public.id}, which another key replaced at "
        "entry 1"
    )
    assert "entry 3 of the log is signed with" in outcome([first, second, second, first], first)
    assert outcome([first, first, second], first) == (
        f"the log's checkpoint is signed with {first.public.id}; the key in use at its size, 3, "
        f"was {second.public.id}"
    )


def test_a_checkpoint_that_the_next_key_signed_is_refused(owner: Owner) -> None:
    """The certificate's own, and an older one: both were signed before the log went on."""
    other = SigningKey.generate(ORIGIN)
    tree = Frontier()
    for leaf in owner.leaves[:3]:
        tree = tree.append(leaf)
    older = checkpoint(ORIGIN, 3, tree.root, other)
    given = everything(owner, keys=(owner.key.public, other.public))
    assert sentence(replace(given, checkpoint=older), "consistency") == (
        f"your checkpoint is signed with {other.public.id}; the key in use at its size, 3, was "
        f"{owner.key.public.id}"
    )
    changed = logged(owner, owner.entries, 4, other)
    found = sentence(replace(given, certificate=changed), "log")
    assert found.startswith("the certificate's checkpoint is signed with")


def test_inclusion_names_the_key_that_signed_the_checkpoint(owner: Owner) -> None:
    found = said(everything(owner), "inclusion")
    assert found.endswith(f"signed at size 7 with {owner.key.public.id}")


def rewritten(owner: Owner, index: int, **changes: object) -> list[bytes]:
    """The same log after an owner who lies has changed a claim and signed the rest anew."""
    found: list[bytes] = []
    for at, entry in enumerate(owner.entries):
        claim, subjects = parse_statement(open_sealed(entry, [owner.key.public]).payload)
        previous = entry_digest(found[-1]) if found else None
        given = changes if at == index else {}
        claim = replace(claim, **{"previous": previous, **given})  # type: ignore[arg-type]
        found.append(owner.sealed(statement_bytes(claim, *subjects[0])))
    return found


def exported(owner: Owner, entries: list[bytes]) -> list[bytes]:
    frontier = Frontier()
    for entry in entries:
        frontier = frontier.append(leaf_hash(entry))
    return list(export_lines(entries, checkpoint(ORIGIN, frontier.size, frontier.root, owner.key)))


def test_a_rewritten_log_is_noticed_by_who_kept_a_checkpoint(owner: Owner) -> None:
    forged = rewritten(owner, 1, request="request-18")
    keys, kept = (owner.key.public,), owner.checkpoint(3)
    alone = Evidence(keys=keys, log=exported(owner, forged))
    assert not Verification(alone).run().failed
    assert "was rewritten" in sentence(replace(alone, checkpoint=kept), "consistency")
    shorter = Evidence(keys=keys, log=exported(owner, owner.entries[:2]), checkpoint=kept)
    assert "counts 3 entries, and the export 2" in sentence(shorter, "consistency")
    outdated = everything(owner, log=exported(owner, owner.entries[:5]))
    assert "counts 7 entries, and the export 5" in sentence(outdated, "log")
    certificate = logged(owner, forged, 4)
    without_log = Evidence(keys=keys, certificate=certificate, checkpoint=kept)
    assert outcomes(without_log)["consistency"] == "not checked"
    leaves, first = [leaf_hash(entry) for entry in forged], Frontier()
    for leaf in leaves[:3]:
        first = first.append(leaf)
    growth = (3, first.root, consistency_proof(3, leaves))
    proved = bundle(forged[4], read(certificate).proof, consistency=growth)
    with_proof = Evidence(keys=keys, certificate=proved, checkpoint=kept)
    assert "was rewritten" in sentence(with_proof, "consistency")
    same_size = Evidence(keys=keys, certificate=certificate, checkpoint=owner.checkpoint())
    assert "was rewritten" in sentence(same_size, "consistency")
    both = Evidence(keys=keys, certificate=owner.bundle(4), log=exported(owner, forged))
    assert "different logs" in sentence(both, "log")


def test_consistency_by_the_proof_in_the_file(owner: Owner) -> None:
    for size in range(8):
        evidence = everything(
            owner,
            log=None,
            certificate=owner.bundle(4, since=size),
            checkpoint=owner.checkpoint(size),
        )
        assert outcomes(evidence)["consistency"] == "ok"
    for since in (2, 3, 4):
        content = json.loads(owner.bundle(4, since=since))
        for name, wrong in (("root", encode64(bytes(32))), ("path", []), ("size", since + 1)):
            grown = content["consistency"] | {name: wrong}
            forged = verify.canonical(content | {"consistency": grown}) + b"\n"
            evidence = everything(owner, certificate=forged, log=None, checkpoint=None)
            assert "in the file does not hold" in sentence(evidence, "consistency")
    other = everything(owner, log=None, checkpoint=owner.checkpoint(2))
    assert outcomes(other)["consistency"] == "not checked"
    bare = everything(owner, log=None, certificate=owner.bundle(4), checkpoint=owner.checkpoint())
    assert outcomes(bare)["consistency"] == "ok"


@pytest.mark.parametrize(
    ("index", "changes", "name", "reason"),
    [
        (2, {"previous": "ab" * 32}, "log", "entry 2 of the log does not name the entry before"),
        (0, {"previous": "ab" * 32}, "log", "entry 0 of the log does not name the entry before"),
        (3, {"model_uuid": "another"}, "log", "entry 3 of the log is of another model"),
        (
            3,
            {"version": 2, "earlier_version": 1},
            "releases",
            "entry 3 of the log: it is of an earlier version",
        ),
        (
            3,
            {"version": 3, "earlier_version": 2},
            "releases",
            "same version as the one before, but differs",
        ),
        (
            3,
            {"releases": 2},
            "releases",
            "entry 3 of the log: it counts 2 releases, and there were 3",
        ),
        (3, {"joint_mu": 0.4, "joint_epsilon": 9.0}, "releases", "mu 0.4 is claimed for all"),
        (3, {"joint_epsilon": 1.5}, "releases", "entry 3 of the log: joint_mu"),
        (5, {"epsilon": 0.9}, "releases", "entry 5 of the log: mu_limit"),
        (
            4,
            {"deleted": 2},
            "releases",
            "entry 4 of the log: it counts 2 deleted rows, and the entry before it 3",
        ),
    ],
)
def test_a_log_whose_account_is_wrong(
    owner: Owner, index: int, changes: dict[str, object], name: str, reason: str
) -> None:
    log = exported(owner, rewritten(owner, index, **changes))
    assert reason in sentence(Evidence(keys=(owner.key.public,), log=log), name)


def test_releases_count_from_the_first_commitment(owner: Owner) -> None:
    """Entries that say of nobody's rows that they left, and commit to ids all the same."""
    entries: list[bytes] = []
    for sealed in owner.entries[:3]:
        claim, (subject,) = parse_statement(open_sealed(sealed, [owner.key.public]).payload)
        claim = replace(
            claim,
            deleted=0,
            releases=1,
            joint_mu=claim.mu_limit,
            joint_epsilon=epsilon_of(claim.mu_limit, DELTA),
            previous=entry_digest(entries[-1]) if entries else None,
        )
        entries.append(owner.sealed(statement_bytes(claim, *subject)))
    evidence = Evidence(keys=(owner.key.public,), log=exported(owner, entries))
    assert "entry 2 of the log: it counts 1 releases" in sentence(evidence, "releases")


def test_an_index_is_a_number(owner: Owner) -> None:
    lines = owner.export().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"index":0', b'"index":false')
    assert "index of entry 0 of the log is not a count" in sentence(
        Evidence(keys=(owner.key.public,), log=lines), "log"
    )


def test_a_training_does_not_start_the_count_anew(owner: Owner) -> None:
    claim, subjects = parse_statement(open_sealed(owner.entries[-1], [owner.key.public]).payload)
    limit = claim.mu_limit
    retrained = replace(
        claim,
        request="training",
        version=claim.version + 1,
        earlier_version=claim.version,
        previous=entry_digest(owner.entries[-1]),
    )
    for releases, joint, reason in (
        (1, limit, "counts 1 releases, and there were 7"),
        (7, limit, "for all releases together"),
        (7, limit * 7**0.5, None),
        (9, limit * 7**0.5, "for all releases together"),
        (20, limit * 8**0.5, None),
    ):
        again = replace(
            retrained, releases=releases, joint_mu=joint, joint_epsilon=epsilon_of(joint, DELTA)
        )
        entries = [*owner.entries, owner.sealed(statement_bytes(again, *subjects[0]))]
        evidence = Evidence(keys=(owner.key.public,), log=exported(owner, entries))
        if reason is None:
            assert not Verification(evidence).run().failed
        else:
            assert reason in sentence(evidence, "releases")


def test_two_requests_of_one_version_are_one_release(owner: Owner) -> None:
    """Both get a certificate; the second one counts no release more."""
    first = rewritten(owner, -1)[:3]
    claim, subjects = parse_statement(open_sealed(first[-1], [owner.key.public]).payload)
    again = replace(claim, request="another", previous=entry_digest(first[-1]))
    entries = [*first, owner.sealed(statement_bytes(again, *subjects[0]))]
    evidence = Evidence(keys=(owner.key.public,), log=exported(owner, entries))
    assert not Verification(evidence).run().failed


# --- the claim, the person, the model


def reissued(owner: Owner, change: Callable[[Claim], Claim]) -> bytes:
    claim, subjects = parse_statement(open_sealed(owner.entries[4], [owner.key.public]).payload)
    return logged(owner, [owner.sealed(statement_bytes(change(claim), *subjects[0]))], 0)


def test_a_claim_that_its_mu_does_not_allow(owner: Owner) -> None:
    def with_changes(**changes: float) -> Evidence:
        return everything(owner, certificate=reissued(owner, lambda c: replace(c, **changes)))  # type: ignore[arg-type]

    assert outcomes(with_changes())["claim"] == "ok"
    assert "mu_limit 0.27 allows delta" in sentence(with_changes(mu_limit=0.27), "claim")
    assert "mu_limit" in sentence(with_changes(delta=0.999e-5), "claim")
    assert "mu_limit" in sentence(with_changes(epsilon=0.999), "claim")
    assert "joint_mu" in sentence(with_changes(joint_epsilon=1.5), "claim")
    low = with_changes(joint_mu=0.2, joint_epsilon=epsilon_of(0.2, DELTA))
    assert "less than the limit of a single release" in sentence(low, "claim")


def test_a_claim_that_its_own_tolerance_refutes(owner: Owner) -> None:
    def outcome(noise: float) -> Evidence:
        changed = reissued(owner, lambda c: replace(c, noise=noise))
        return everything(owner, certificate=changed)

    assert "a retraining that stops at tol 1e-11 alone" in sentence(outcome(1e-12), "claim")
    assert "may come to more" in sentence(outcome(1e-300), "claim")
    assert outcomes(outcome(1e-8))["claim"] == "ok"


@pytest.mark.parametrize(
    "changes",
    [
        {"mu_limit": "5e-324"},
        {"epsilon": "101"},
        {"delta": "0"},
        {"rows": 0},
        {"problems": 0},
        {"columns": 0},
        {"releases": 0},
        {"issued": "9999-19-39T29:59:69Z"},
        {"issued": "2026-02-30T12:00:00Z"},
        {"constants": [{"name": "norm", "origin": ["fitted"], "version": 1}]},
        {"constants": [{"name": "norm", "origin": {}, "version": 1}]},
    ],
)
def test_figures_out_of_range_are_refused(owner: Owner, changes: dict[str, object]) -> None:
    payload = json.loads(open_sealed(owner.entries[4], [owner.key.public]).payload)
    payload["predicate"] |= changes
    changed = logged(owner, [owner.sealed(verify.canonical(payload))], 0)
    (name,) = changes
    assert f"the certificate's {name}" in sentence(
        everything(owner, certificate=changed), "signature"
    )


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.01, 0.2681, 0.5, 1.0, 3.0, 10.0])
def test_delta_against_extended_precision(mu: float) -> None:
    mpmath.mp.dps = 60
    for multiple in (0.0, 1e-3, 0.3, 1.0, 3.0, 5.0, 8.0):
        epsilon = mu * multiple
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert abs(verify.delta_of(epsilon, mu) / exact - 1) < 1e-10


def test_delta_at_the_ends() -> None:
    for mu in (1e-320, 1e-200, 1e-20):
        assert verify.delta_of(0.0, mu) == pytest.approx(mu / np.sqrt(2 * np.pi), rel=1e-4)
    for epsilon, mu in ((1e300, 1e-300), (1.0, 1e-320), (1e300, 1.0)):
        assert verify.delta_of(epsilon, mu) == 0.0
    for epsilon, mu in ((0.0, 1e300), (1.0, 1e155)):
        assert verify.delta_of(epsilon, mu) == 1.0
    assert verify.delta_of(1.0, 0.0) == 0.0
    assert verify.delta_of(1.0, 1e-9) == 0.0
    assert verify.delta_of(0.0, 100.0) == pytest.approx(1.0, rel=1e-10)
    assert verify.delta_of(EPSILON, 0.2681) == pytest.approx(1e-5, rel=1e-2)


def test_who_was_deleted(owner: Owner) -> None:
    assert outcomes(everything(owner))["person"] == "ok"
    for salt, identifier in ((SALT, "person-3"), (SALT[:-1], "person-399"), (SALT, "person-39")):
        evidence = everything(owner, salt=salt, identifier=identifier)
        assert "open none of the 1 commitments" in sentence(evidence, "person")


def test_another_model(owner: Owner) -> None:
    assert "not the one" in sentence(everything(owner, model=owner.models[3]), "model")
    assert "not the one" in sentence(everything(owner, model=b""), "model")


# --- the annex and the data


def test_annexes_that_do_not_carry_the_claim(owner: Owner) -> None:
    own = parse_annex(open_sealed(owner.annexes[4], [owner.key.public]).payload)

    def with_annex(annex: Annex, key: SigningKey = owner.key, kind: str = ANNEX_TYPE) -> Evidence:
        return everything(
            owner, annex=seal(kind, annex_bytes(annex), key), certificate=owner.bundle(4)
        )

    assert outcomes(with_annex(own))["annex"] == "ok"
    for annex, reason in (
        (replace(own, entry="ab" * 32), "belongs to another certificate"),
        (replace(own, centre_sha256="ab" * 32), "does not open the commitment"),
        (replace(own, centre_salt=bytes(16).hex()), "does not open the commitment"),
        (replace(own, mu=own.mu * 1.001), "its distance gives"),
        (replace(own, distance=own.distance * 0.9), "its distance gives"),
        (replace(own, distance=1.0, mu=(1.0 + 1e-9) / NOISE), "the certificate allows"),
        (replace(own, bound="gradient", residual=None), "does not state it"),
        (replace(own, bound="gradient", residual=1e3), "gives a larger distance"),
    ):
        assert reason in sentence(with_annex(annex), "annex")
    stranger = SigningKey.generate(ORIGIN)
    assert "none of the given keys" in sentence(with_annex(own, stranger), "annex")
    assert "should hold" in sentence(with_annex(own, kind="application/x"), "annex")
    of_another = everything(owner, annex=owner.annexes[3])
    assert "belongs to another certificate" in sentence(of_another, "annex")


def test_the_distance_is_measured_on_the_rows(owner: Owner) -> None:
    """Three classes of lies: a row that was to be deleted, a centre that was not updated, a smaller
    distance than there is."""
    rows = owner.remaining[4]
    still_there = np.append(rows[1:], 399)  # deleted in this very version
    wrong = everything(owner, rows=owner.X[still_there], targets=owner.y[still_there])
    assert "and the annex says" in sentence(wrong, "distance")
    assert "the certificate is about 396 rows" in sentence(
        everything(owner, rows=owner.X[rows[1:]], targets=owner.y[rows[1:]]), "distance"
    )
    assert "targets other than 0 and 1" in sentence(
        everything(owner, targets=owner.y[rows] * 2 - 1), "distance"
    )
    stale = everything(owner, centre=owner.centres[0])
    assert "not the one that the certificate is committed to" in sentence(stale, "distance")
    assert "shape" in sentence(everything(owner, centre=owner.centres[4][:, 1:]), "distance")
    with_ones = np.column_stack([owner.X[rows], np.ones(len(rows))])
    assert outcomes(everything(owner, rows=with_ones))["distance"] == "ok"


def test_distance_to_optimum_against_scipy(owner: Owner) -> None:
    """From a centre that is far off, against another minimiser."""
    from scipy.optimize import minimize

    X, y, l2 = np.column_stack([owner.X, np.ones(400)]), owner.y, 0.01

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = X @ w
        value = np.logaddexp(0, margin).sum() - y @ margin + 2 * (w @ w)
        return value, X.T @ (1 / (1 + np.exp(-margin)) - y) + 4 * w

    best = minimize(objective, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    for scale in (0.0, 1.0, 30.0):
        centre = best + scale * np.random.default_rng(1).standard_normal(6)
        low, high = verify.distance_to_optimum(X, y[:, None], centre[None], l2)
        assert low <= np.linalg.norm(centre - best) + 1e-7
        assert high >= np.linalg.norm(centre - best) - 1e-7
        assert high - low < 1e-9


def of_model(owner: Owner, model: bytes, centre: np.ndarray | None = None) -> Evidence:
    """What an owner who lies would hand on: a certificate and an annex of another model."""
    claim, _ = parse_statement(open_sealed(owner.entries[4], [owner.key.public]).payload)
    annex = parse_annex(open_sealed(owner.annexes[4], [owner.key.public]).payload)
    used = owner.centres[4] if centre is None else centre
    digest, salt = hashlib.sha256(used.tobytes()).hexdigest(), bytes.fromhex(annex.centre_salt)
    claim = replace(claim, centre_commitment=verify.centre_commitment(salt, digest))
    statement = statement_bytes(claim, "model", hashlib.sha256(model).hexdigest())
    entry = owner.sealed(statement)
    annex = replace(annex, entry=entry_digest(entry), centre_sha256=digest)
    return everything(
        owner,
        certificate=logged(owner, [entry], 0),
        log=None,
        checkpoint=None,
        model=model,
        annex=seal(ANNEX_TYPE, annex_bytes(annex), owner.key),
        centre=used,
    )


def test_noise_that_is_missing_or_too_much(owner: Owner) -> None:
    centre = owner.centres[4]
    assert set(outcomes(of_model(owner, owner.models[4])).values()) == {"ok", "not checked"}
    drawn = np.random.default_rng(5).standard_normal(centre.shape)
    for factor in (0.0, 0.01, 20.0, np.nan, np.inf):
        model = save({"weights": centre + factor * NOISE * drawn})
        assert "and should be 0.01" in sentence(of_model(owner, model), "noise")
    for model in (b"not a model", b"PK not a zip file", b"", save({"weights": np.zeros(3, "f4")})):
        assert "no float64 array" in sentence(of_model(owner, model), "noise")
    flat = save({"weights": np.zeros((1, 3))})
    assert "different shapes" in sentence(of_model(owner, flat), "noise")
    other = everything(owner, model=owner.models[3])
    assert outcomes(other)["noise"] == "not checked"


def test_a_centre_that_is_none(owner: Owner) -> None:
    centre = np.full_like(owner.centres[4], np.nan)
    evidence = of_model(owner, owner.models[4], centre)
    assert "not finite" in sentence(evidence, "distance")
    assert "not finite" in sentence(evidence, "noise")
    far = owner.centres[4] + 1.0
    assert "and the annex says" in sentence(of_model(owner, owner.models[4], far), "distance")


@given(st.integers(1, 5000), st.floats(0.01, 5))
def test_honest_noise_is_called_so(count: int, ratio: float) -> None:
    """The bound is never below the probability, by SciPy's chi-squared distribution."""
    squares = count * ratio
    tail = stats.chi2.cdf if ratio < 1 else stats.chi2.sf
    assert verify.noise_luck(squares, count) >= 2 * min(0.5, tail(squares, count)) * (1 - 1e-9)


def test_noise_of_half_the_size_is_told_from_enough_weights() -> None:
    assert verify.noise_luck(1000 * 0.25, 1000) < 1e-100
    assert verify.noise_luck(1000 * 4.0, 1000) < 1e-100
    assert verify.noise_luck(1000.0, 1000) == 1.0
    for nothing in (0.0, np.nan, np.inf):
        assert verify.noise_luck(nothing, 1000) == 0.0


def test_the_zip_file_of_an_export_is_read() -> None:
    import io
    import zipfile

    weights, buffer = np.arange(6.0).reshape(2, 3), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("model.safetensors", save({"weights": weights}))
    assert (verify.weights_in(buffer.getvalue()) == weights).all()


# --- the command line, and the file on its own


@pytest.fixture(scope="module")
def folder(owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything as files."""
    made, rows = tmp_path_factory.mktemp("handed-on"), owner.remaining[4]
    (made / "certificate.json").write_bytes(owner.bundle(4, annex=True))
    (made / "key.txt").write_text(owner.key.public.text + "\n")
    (made / "model.safetensors").write_bytes(owner.models[4])
    (made / "annex.json").write_bytes(owner.annexes[4] + b"\n")
    (made / "old.checkpoint").write_text(owner.checkpoint(3))
    (made / "log.jsonl").write_bytes(owner.export())
    np.savez(made / "rows.npz", X=owner.X[rows], y=owner.y[rows])
    np.save(made / "centre.npy", owner.centres[4])
    (made / "keys.txt").write_text(f"{owner.key.public.text}\n\nno key\n")
    for name in ("empty", "empty.npz", "empty.npy"):
        (made / name).write_bytes(b"")
    _write_bad_arrays(made, owner.X[rows], owner.y[rows])
    return made


def _write_bad_arrays(made: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Files of arrays that cannot be read, or that are not of real numbers."""
    np.savez_compressed(made / "whole.npz", X=X, y=y)
    content = bytearray((made / "whole.npz").read_bytes())
    content[60:90] = bytes(30)
    (made / "damaged.npz").write_bytes(content)
    np.savez(made / "text.npz", X=X.astype(str), y=y)
    np.savez(made / "complex.npz", X=X + 1j, y=y)
    np.savez(made / "structured.npz", X=np.zeros(3, [("a", float)]), y=y)
    buffer = io.BytesIO()
    np.save(buffer, X)
    header = buffer.getvalue()[:128]
    for name, member in (("raw", b"rows"), ("cut", header[:40])):
        with zipfile.ZipFile(made / f"{name}.npz", "w") as file:
            file.writestr("X.npy", member)
            file.writestr("y.npy", member)
    (made / "zip.npy").write_bytes(b"PK\x03\x04")
    (made / "cut.npy").write_bytes(header[:40])
    (made / "huge.npy").write_bytes(header.replace(b"(394, 5), ", b"(9" + b"9" * 14 + b",),"))
    np.save(made / "complex.npy", X + 1j)


FULL = [
    "certificate.json",
    *("--key", "key.txt", "--model", "model.safetensors", "--annex", "annex.json"),
    *("--checkpoint", "old.checkpoint", "--log", "log.jsonl"),
    *("--salt", SALT.hex(), "--id", "person-399"),
]
AUDIT = ["--data", "rows.npz", "--centre", "centre.npy"]


def test_both_command_lines_say_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert verify.main([*FULL, *AUDIT]) == 0
    printed = capsys.readouterr().out
    result = CliRunner().invoke(app, ["verify", *FULL, *AUDIT])
    assert (result.exit_code, result.output) == (0, printed)
    assert [line.split()[1] for line in printed.splitlines()[: len(CHECKS)]] == CHECKS
    assert all(line.startswith("ok ") for line in printed.splitlines()[: len(CHECKS)])
    assert "No certificate can prove:" in printed
    for promise in ("all the rows there are", "copies", "before a deletion", "process was run"):
        assert promise in printed
    assert "releases from before a deletion" in printed
    assert printed.endswith("Nothing failed: of 13 checks 13 held and 0 were not made.\n")


def test_json_and_exit_status(folder: Path, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run = CliRunner().invoke
    given = ["verify", "certificate.json", "--key", owner.key.public.text, "--json"]
    found = json.loads(run(app, given).output)
    assert found["failed"] is False
    assert found["claim"]["epsilon"] == 1.0
    assert len(found["not_proved"]) == 5
    result = run(app, [*given, "--salt", SALT.hex(), "--id", "nobody"])
    found = json.loads(result.output)
    assert (result.exit_code, found["failed"]) == (1, True)
    assert "Do not rely on this: of 13 checks 1 failed" in found["verdict"]
    assert run(app, ["verify", "--log", "log.jsonl", "--key", "key.txt"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["certificate.json"], "give the owner's public key with --key"),
        (["--key", "key.txt"], "name a certificate's file, or the export of a log"),
        (["nowhere.json", "--key", "key.txt"], "nowhere.json cannot be read: No such file"),
        (["certificate.json", "--key", "no.txt"], "no.txt cannot be read: No such file"),
        (["certificate.json", "--key", "log.jsonl"], "log.jsonl holds no key"),
        (["certificate.json", "--key", "a+b+c"], "--key: "),
        (["certificate.json", "--key", "."], "cannot be read: Is a directory"),
        ([*FULL[:3], "--log", "nowhere"], "nowhere cannot be read"),
        ([*FULL[:3], "--salt", "00"], "--salt and --id belong together"),
        ([*FULL[:3], "--salt", "xy", "--id", "7"], "--salt is not hexadecimal"),
        ([*FULL[:3], "--data", "key.txt"], "key.txt is not an .npz file with the arrays X and y"),
        ([*FULL[:3], "--data", "centre.npy"], "centre.npy is not an .npz file"),
        ([*FULL[:3], "--data", "nowhere"], "nowhere cannot be read"),
        ([*FULL[:3], "--centre", "nowhere"], "nowhere cannot be read: No such file"),
        ([*FULL[:3], "--centre", "key.txt"], "key.txt is not an .npy file of weights"),
        ([*FULL[:3], "--centre", "rows.npz"], "rows.npz is not an .npy file of weights"),
        (["certificate.json", "--key", "a\0b"], "name cannot be used"),
        (["certificate.json", "--key", "empty"], "empty holds no key: it is empty"),
        (["certificate.json", "--key", "keys.txt"], "keys.txt holds no key in line 3"),
        ([*FULL[:3], "--salt", "00", "--id", "\udcff"], "--id is not text in UTF-8"),
        *(
            ([*FULL[:3], "--data", f"{name}.npz"], f"{name}.npz is not an .npz file with the")
            for name in ("damaged", "empty", "text", "complex", "raw", "structured", "cut")
        ),
        *(
            ([*FULL[:3], "--centre", f"{name}.npy"], f"{name}.npy is not an .npy file of weights")
            for name in ("zip", "empty", "cut", "huge", "complex")
        ),
    ],
)
def test_arguments_that_cannot_be_used(
    folder: Path,
    arguments: list[str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert verify.main(arguments) == 2
    said = capsys.readouterr()
    assert reason in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_the_file_imports_the_standard_library_and_cryptography() -> None:
    tree = ast.parse(Path(verify.__file__).read_text())
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported - sys.stdlib_module_names == {"cryptography", "numpy"}
    at_the_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not re.search("numpy|cryptography", " ".join(ast.dump(node) for node in at_the_top))


def alone(tmp_path: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the file in an isolated Python whose only package is cryptography."""
    packages = tmp_path / "packages"
    packages.mkdir()
    site = Path(cryptography.__file__).parents[1]
    for name in ("cryptography", "cffi", "_cffi_backend*", "pycparser", "typing_extensions.py"):
        for found in site.glob(name):
            os.symlink(found, packages / found.name)
    shutil.copy(verify.__file__, tmp_path / "verify.py")
    code = (
        "import importlib.util, runpy, sys\n"
        f"sys.path.append({str(packages)!r})\n"
        "for name in ('unfit', 'numpy', 'scipy', 'typer'):\n"
        "    assert importlib.util.find_spec(name) is None, name\n"
        f"sys.argv = ['verify.py', *{list(arguments)!r}]\n"
        f"runpy.run_path({str(tmp_path / 'verify.py')!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_names_that_the_screen_cannot_show_are_no_obstacle(
    owner: Owner, folder: Path, tmp_path: Path
) -> None:
    changed = reissued(owner, lambda c: replace(c, model="K\u00fcndigungen"))
    (tmp_path / "c.json").write_bytes(changed)
    given = [str(tmp_path / "c.json"), "--key", str(folder / "key.txt")]
    for command in ([verify.__file__], ["-m", "unfit", "verify"]):
        done = subprocess.run(
            [sys.executable, *command, *given],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "of K?ndigungen" in done.stdout


def test_rows_that_overflow_are_no_optimum(
    owner: Owner, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    rows = owner.remaining[4]
    np.savez(tmp_path / "large.npz", X=owner.X[rows] * 1e200, y=owner.y[rows])
    given = [*FULL, "--centre", "centre.npy", "--data", str(tmp_path / "large.npz")]
    result = CliRunner().invoke(app, ["verify", *given])
    line = next(line for line in result.output.splitlines() if "distance" in line[:26])
    assert line.startswith(("FAILED", "not checked"))


def test_the_file_runs_alone(tmp_path: Path, folder: Path) -> None:
    done = alone(tmp_path, folder, *FULL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("of 13 checks 11 held and 2 were not made.\n")


def test_alone_with_data_it_asks_for_numpy(tmp_path: Path, folder: Path) -> None:
    done = alone(tmp_path, folder, *FULL, *AUDIT)
    assert done.returncode == 2
    assert "pip install numpy" in done.stderr


def test_without_cryptography_it_says_what_to_install(folder: Path) -> None:
    command = [sys.executable, "-I", "-S", verify.__file__, *FULL]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install cryptography" in done.stderr


def test_the_command_loads_nothing_that_computes(folder: Path) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom unfit.cli import app\n"
        f"result = CliRunner().invoke(app, ['verify', *{FULL!r}])\n"
        "assert result.exit_code == 0, result.output\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    heavy = {"numba", "numpy", "scipy", "sklearn", "pyarrow", "sqlalchemy", "rich"}
    assert not heavy & set(done.stdout.split())


def test_a_bundle_of_what_is_no_certificate(owner: Owner) -> None:
    with pytest.raises(BadInput, match="certificate's envelope is damaged"):
        bundle(b"nothing", "proof")
    with pytest.raises(BadInput, match="not in normal form"):
        bundle(json.dumps(json.loads(owner.entries[0])).encode(), "proof")
    with pytest.raises(BadInput, match="not a certificate of unfit"):
        read(b"{}\n")
