"""Statements and annexes: the same bytes every time, numbers towards the weaker claim."""

import json
from dataclasses import fields, replace
from decimal import Decimal

import numpy as np
import pytest
from certificates import SALT, a_claim
from hypothesis import given
from hypothesis import strategies as st

from unfit.certify.accountant import delta_of, epsilon_of, mu_of
from unfit.certify.statement import (
    PREDICATE_TYPE,
    Annex,
    Claim,
    annex_bytes,
    centre_commitment,
    commitment,
    parse_annex,
    parse_statement,
    statement_bytes,
)
from unfit.errors import BadInput

DIGEST = "ab" * 32
ANNEX = Annex(
    entry=DIGEST,
    distance=1.5e-4,
    bound="step",
    mu=0.15,
    steps=0,
    residual=None,
    centre_sha256=DIGEST,
    centre_salt=SALT.hex(),
)


def test_the_statement_is_in_toto_s() -> None:
    statement = json.loads(statement_bytes(a_claim(), "model.safetensors", DIGEST))
    assert statement.keys() == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "model.safetensors", "digest": {"sha256": DIGEST}}]
    assert statement["predicateType"] == PREDICATE_TYPE
    assert statement["predicate"].keys() == {one.name for one in fields(Claim)}
    assert statement["predicate"]["delta"] == "0.00001"
    assert statement["predicate"]["noise"] == "0.01"
    assert statement["predicate"]["rows"] == 400


def test_what_depends_on_the_rows_is_not_in_the_public_part() -> None:
    private = {one.name for one in fields(Annex)}
    assert not private & {one.name for one in fields(Claim)}
    assert {"distance", "mu", "residual", "bound", "steps", "centre_salt"} <= private


def test_a_claim_survives_its_bytes() -> None:
    claim = a_claim(commitments=(commitment(SALT, "7"),), previous=DIGEST, model="K\u00fcndigung")
    data = statement_bytes(claim, "model.safetensors", DIGEST)
    found, subjects = parse_statement(data)
    assert subjects == (("model.safetensors", DIGEST),)
    assert statement_bytes(found, *subjects[0]) == data
    exact = {"mu_limit", "joint_mu", "joint_epsilon"}  # rounded up
    for one in fields(Claim):
        if one.name not in exact:
            assert getattr(found, one.name) == getattr(claim, one.name)


def test_numbers_of_numpy_are_numbers() -> None:
    plain = statement_bytes(a_claim(epsilon=1), "m", DIGEST)
    of_numpy = a_claim(epsilon=np.float64(1.0), rows=np.int64(400), columns=np.int32(6))
    assert statement_bytes(of_numpy, "m", DIGEST) == plain


@given(
    st.floats(1e-6, 50, exclude_min=True),
    st.floats(-9, -1).map(lambda power: 10.0**power),
)
def test_rounding_is_towards_the_weaker_claim_and_keeps_the_promise(
    epsilon: float, delta: float
) -> None:
    limit = mu_of(epsilon, delta)
    joint = 3 * limit
    claim = a_claim(
        epsilon=epsilon,
        delta=delta,
        mu_limit=limit,
        joint_mu=joint,
        joint_epsilon=epsilon_of(joint, delta),
    )
    stated = json.loads(statement_bytes(claim, "m", DIGEST))["predicate"]
    for name in ("epsilon", "delta", "mu_limit", "joint_mu", "joint_epsilon"):
        exact, said = Decimal(repr(getattr(claim, name))), Decimal(stated[name])
        assert exact <= said <= exact * (1 + Decimal("1e-12"))
        assert len(said.as_tuple().digits) <= 17
    numbers = {name: float(stated[name]) for name in ("epsilon", "delta", "mu_limit")}
    assert delta_of(numbers["epsilon"], numbers["mu_limit"]) <= numbers["delta"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epsilon": float("inf")}, "cannot state epsilon = inf"),
        ({"joint_mu": float("nan")}, "cannot state joint_mu = nan"),
        ({"epsilon": -1.0}, "epsilon is not a decimal number"),
        ({"delta": 0.0}, "out of range"),
        ({"noise": 0.0}, "out of range"),
        ({"releases": 0}, "out of range"),
        ({"version": -1}, "version is not a count"),
        ({"version": True}, "version is not a count"),
        ({"version": 1.5}, "not JSON of this kind"),
        ({"earlier_version": 1}, "not later than the version before"),
        ({"issued": "yesterday"}, "issued is not a time such as"),
        ({"issued": "2026-01-31T12:00:00+01:00"}, "issued is not a time such as"),
        ({"commitments": ("7",)}, "commitments is not a SHA-256 digest"),
        ({"previous": "x"}, "previous is not a SHA-256 digest"),
        ({"constants": (("norm", "guessed", 1),)}, "neither declared nor fitted"),
        ({"model": "\ud800"}, "cannot be written as JSON"),
        ({"not_claimed": (1,)}, "not_claimed is not text"),
    ],
)
def test_what_cannot_be_read_is_not_written(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        statement_bytes(a_claim(**changes), "m", DIGEST)


def test_statements_that_are_refused() -> None:
    data = statement_bytes(a_claim(), "model.safetensors", DIGEST)
    for old, new, reason in (
        (b"certificate:v1", b"certificate:v2", "another version, urn:unfit:certificate:v2: use a"),
        (b"urn:unfit:certificate:v1", b"https://slsa.dev/provenance/v1", "not a certificate"),
        (b"Statement/v1", b"Statement/v2", "not an in-toto statement of version 1"),
        (b'"rows":400', b'"rows":"400"', "rows is not a count"),
        (b'"rows":400', b'"rows":4e2', "not JSON of this kind"),
        (b'"rows":400', b'"rows":400 ', "not in normal form"),
        (b'"rows":400', b'"rows":400,"rows":400', "not JSON of this kind"),
        (b'"rows":400', b'"rowt":400', "no field 'rows'"),
        (b'"rows":400', b'"rows":400,"rowt":1', "field 'rowt', which this version does not know"),
        (b'"epsilon":"1.0"', b'"epsilon":1', "epsilon is not text"),
        (b'"epsilon":"1.0"', b'"epsilon":"Infinity"', "epsilon is not a decimal number"),
        (b'"epsilon":"1.0"', b'"epsilon":"1e999"', "epsilon is too large"),
        (b'"sha256":"ab', b'"sha256":"AB', "not a SHA-256 digest"),
        (b"}]}", b"}]", "cut short"),
        (data[data.index(b'[{"digest') :], b"[]}", "names no released file"),
    ):
        assert data.count(old) == 1, old
        with pytest.raises(BadInput, match=reason):
            parse_statement(data.replace(old, new))


def test_an_annex_survives_its_bytes() -> None:
    assert parse_annex(annex_bytes(ANNEX)) == ANNEX
    with_residual = replace(ANNEX, bound="gradient", residual=1e-9)
    assert parse_annex(annex_bytes(with_residual)) == with_residual
    with pytest.raises(BadInput, match="centre_salt is not 16 to 64 bytes"):
        annex_bytes(replace(ANNEX, centre_salt="00"))
    with pytest.raises(BadInput, match="the annex has no field"):
        parse_annex(b"{}")


def test_commitments_say_nothing_without_the_salt_and_cannot_be_confused() -> None:
    assert commitment(SALT, "7") == commitment(SALT, "7")
    others = {
        commitment(SALT, "7"),
        commitment(SALT, "8"),
        commitment(SALT + b"7", ""),
        commitment(SALT[:-1] + b"\x00", "7"),
        commitment(SALT + b"\x00", "7"),
        centre_commitment(SALT, b"7"),
        centre_commitment(SALT, b"8"),
    }
    assert len(others) == 7
    for make in (lambda: commitment(b"short", "7"), lambda: centre_commitment(b"", b"7")):
        with pytest.raises(BadInput, match="a salt needs 16 random bytes at least"):
            make()
