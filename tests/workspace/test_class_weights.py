"""Weights of classes, C and a free intercept in a workspace: trained, forgotten and audited."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from workspaces import make

import people
import unfit
from unfit.errors import BadInput, CannotTrain
from unfit.workspace.config import read
from unfit.workspace.constants import class_weights
from unfit.workspace.model import Card


def edited(**keys: str):  # type: ignore[no-untyped-def]
    """Sets keys of [model] in unfit.toml."""

    def edit(text: str) -> str:
        for key, value in keys.items():
            text, found = re.subn(rf"(?m)^(# )?{key} = \S+", f"{key} = {value}", text)
            assert found == 1, key
        return text

    return edit


def trained_on(ws):  # type: ignore[no-untyped-def]
    """The rows that remain, as they are encoded, their class codes, the card and the weights."""
    with ws.session() as session:
        model = session.open_model()
        left = model.data.take(np.flatnonzero(model.data.remaining))
        return left, model.card, model.state.weights.copy()


def refitted(ws, **parameters: object) -> np.ndarray:  # type: ignore[no-untyped-def]
    """The estimator's weights on the same rows."""
    rows, _, _ = trained_on(ws)
    clf = unfit.LogisticRegression("retrain", dtype="float64", tol=1e-12, **parameters)
    clf.fit(rows.X, rows.codes)
    return np.column_stack([clf.coef_, clf.intercept_])


@pytest.mark.parametrize(
    ("keys", "parameters"),
    [
        ({"class_weight": '{"no" = 3.0}'}, {"class_weight": {0: 3.0}}),
        ({"C": "0.5"}, {"C": 0.5}),
        ({"penalize_intercept": "false"}, {"penalize_intercept": False}),
    ],
)
def test_a_workspace_minimises_what_the_estimator_does(
    tmp_path: Path, keys: dict[str, str], parameters: dict[str, object]
) -> None:
    with make(tmp_path / "w", None, edit=edited(method='"retrain"', **keys)).open() as ws:
        _, card, weights = trained_on(ws)
        if "class_weight" in keys:
            assert card.classes[0] == "no"
            assert card.class_weights == (3.0, 1.0)
            assert Card.from_json(card.to_json()) == card
        np.testing.assert_allclose(weights, refitted(ws, **parameters), atol=1e-5)
        ws.forget(subjects=["p0003", "p0004"])
        _, _, weights = trained_on(ws)
        np.testing.assert_allclose(weights, refitted(ws, **parameters), atol=1e-5)
        assert ws.audit(random_state=0).outcome != "not forgotten"


def test_sums_of_weighted_rows_survive_the_process(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, edit=edited(class_weight='{"no" = 3.0}', C="0.5"))
    with kept.open() as ws:
        ws.prepare()
        with ws.session() as session:
            known = session.open_model().state.statistics
    with kept.open() as ws, ws.session() as session:
        model = session.open_model()
        back = model.state.statistics
        assert known is not None
        assert back is not None
        assert (back.penalty, back.total_weight) == (known.penalty, known.total_weight)
        assert back.total_weight == model.data.total_weight() != model.data.n_remaining
        np.testing.assert_array_equal(back.hessian_sum, known.hessian_sum)


def test_balanced_weights_are_fitted_at_every_training_and_follow_erasures(tmp_path: Path) -> None:
    table = people.people(n=600, subjects=300)
    with make(
        tmp_path / "w", None, table=table, edit=edited(class_weight='"balanced"')
    ).open() as ws:
        rows, card, _ = trained_on(ws)
        assert card.balanced
        assert card.class_weights == class_weights("balanced", card.classes, rows.codes)
        assert ws.audit(random_state=0).outcome != "not forgotten"
        of_one = [
            person
            for person, label in zip(
                table["person"].to_pylist(), table["label"].to_pylist(), strict=True
            )
            if label == card.classes[0]
        ]
        ws.forget(subjects=sorted(set(of_one))[:60])
        left, after, _ = trained_on(ws)
        assert after.class_weights == class_weights("balanced", card.classes, left.codes)
        assert after.class_weights != card.class_weights
        with ws.session() as session:
            decision = session.store.decisions.find(last=1)[0]
        assert decision.action == "retrain"
        assert "balanced class weights are different" in decision.reason


def test_an_audit_finds_balanced_weights_that_remember(tmp_path: Path) -> None:
    with make(tmp_path / "w", None, edit=edited(class_weight='"balanced"')).open() as ws:
        with ws.session() as session:
            model = session.open_model()
            model.card = replace(model.card, class_weights=(9.0, 1.0))
        found = ws.audit(random_state=0)
        assert found.outcome == "not forgotten"
        assert "the constants of the balanced weights of classes are not those" in found.verdict


def test_balanced_weights_have_two_digits() -> None:
    codes = np.repeat([0, 1, 2], [1003, 171, 33])
    found = class_weights("balanced", ("a", "b", "c"), codes)
    assert found == (0.4, 2.4, 12.0)
    assert class_weights("balanced", ("a", "b", "c"), codes[1:]) == found
    assert class_weights("none", ("a",), codes) is None
    with pytest.raises(CannotTrain, match=r"model.class_weight: class_weight names \['d'\]"):
        class_weights({"d": 2.0}, ("a", "b", "c"), codes)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"C": "1.0", "l2": "0.01"}, "model.C cannot be used: l2 is given, too"),
        ({"class_weight": '"balanced"', "solver": '"sgd"'}, "model.class_weight cannot be used"),
        ({"penalize_intercept": "false", "method": '"deltagrad"'}, "model.penalize_intercept"),
        ({"C": "1.0", "method": '"deltagrad"'}, "deltagrad needs a penalty per row"),
        ({"C": "1.0", "epsilon": "1.0"}, "certificates state l2"),
        ({"class_weight": '"balanced"', "epsilon": "1.0"}, "certificates state no weights"),
        ({"penalize_intercept": "false", "epsilon": "1.0"}, "can move without bound"),
        ({"class_weight": '"heavy"'}, r"model\.class_weight"),
        ({"class_weight": '{"no" = -1.0}'}, r"model\.class_weight"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, keys: dict[str, str], said: str
) -> None:
    kept = make(tmp_path / "w", None, trained=False, random_state=None)
    toml = kept.folder / "unfit.toml"
    toml.write_text(edited(**keys)(toml.read_text()))
    with pytest.raises(BadInput, match=said):
        read(kept.folder).check_method()
