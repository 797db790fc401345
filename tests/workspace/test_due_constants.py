"""A workspace's constants follow its rows: in place or by a retraining; an audit looks."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workspaces import Kept, make, signature

import people
from remaining import differing, exported_card
from unfit.data.encoding import Encoding
from unfit.workspace import Workspace, constants

TEN = ("min_rows = 1 ", "min_rows = 10")


def stale(ws: Workspace, **changed: object) -> None:
    """Give the active version a card with other constants of 'age', as if nobody had looked."""
    with ws.session() as session:
        loaded = session.open_model()
        columns = tuple(
            replace(c, **changed) if c.column.name == "age" else c
            for c in loaded.card.encoding.columns
        )
        encoding = replace(loaded.card.encoding, columns=columns)
        _put(session, replace(loaded.card, encoding=encoding).to_json())


def _put(session: object, card: dict) -> None:
    version = session.require_version()
    sha = session.artifacts.put_json(card)
    session.store.purges.record(version, sha)
    session.model = None
    session.active = replace(version, card_sha=sha)


def test_an_audit_refits_the_constants_and_names_the_column(workspace: Workspace) -> None:
    workspace.forget(subjects=["p0003"])
    assert workspace.audit().constants == ()
    stale(workspace, shift=45.5)
    report = workspace.audit()
    assert report.constants == ("age",)
    assert report.passed is False
    assert report.verdict.startswith("not forgotten: the constants of column 'age' are not")
    assert type(report).of(report.as_dict()).constants == ("age",)
    made = workspace.forget(subjects=["p0017"])  # the next erasure finds it too
    assert made.action == "retrain"
    assert "the mean of column 'age' changed after rounding" in made.reason
    assert workspace.audit().constants == ()


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_whoever_leaves_the_card_is_a_fit_on_what_remains(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kept = _base(tmp_path_factory).copy(tmp_path_factory.mktemp("w") / "w")
    left = sorted(set(people.people()["person"].to_pylist()))
    with kept.open() as ws:
        for _ in range(4):
            leaving = data.draw(st.lists(st.sampled_from(left), min_size=1, max_size=30))
            made = ws.forget(subjects=leaving)
            assert differing(ws) == []
            assert ws.audit().constants == ()
            assert ("changed" in made.reason or "fewer" in made.reason) <= (
                made.action == "retrain"
            )


_made: list[Kept] = []


def _base(factory: pytest.TempPathFactory) -> Kept:
    """With a fitted norm, categories that fall under min_rows, and too many of them."""
    if not _made:
        table = people.people().set_column(
            6, "city", pa.array([f"c{int(i**0.5)}" for i in range(400)])
        )
        kept = make(
            factory.mktemp("base") / "w",
            None,
            table=table,
            norm="fitted",
            max_categories=9,
            edit=lambda text: text.replace(*TEN),
        )
        _made.append(kept)
    return _made[0]


def test_names_that_too_few_hold_leave_the_card_without_a_retraining(tmp_path: Path) -> None:
    """Names without a column."""
    table = people.people(n=400, subjects=400)
    rare = pa.array(["often"] * 350 + ["seldom"] * 26 + ["scarce"] * 24)
    table = table.set_column(6, "city", rare)
    kept = make(
        tmp_path / "w",
        None,
        table=table,
        max_categories=1,
        row_id="record",
        edit=lambda text: text.replace(*TEN),
    )
    with kept.open() as ws:
        city = exported_card(ws)["encoding"]["columns"][-1]
        assert (city["categories"], city["others"]) == (["often"], ["scarce", "seldom"])
        made = ws.forget(rows=[f"r{i:05d}" for i in range(376, 392)])
        assert made.action == "update"
        city = exported_card(ws)["encoding"]["columns"][-1]
        assert (city["categories"], city["others"]) == (["often"], ["seldom"])
        assert differing(ws) == []


@pytest.mark.parametrize("missing", [False, True])
def test_the_fill_of_a_boolean_changes_in_place_where_no_row_needs_it(
    tmp_path: Path, missing: bool
) -> None:
    rng = np.random.default_rng(0)
    truth: list[bool | None] = [i % 2 == 0 for i in range(300)]
    if missing:
        truth[7] = truth[17] = truth[27] = None
    table = pa.table({"flag": truth, "x": rng.normal(size=300), "label": rng.integers(0, 2, 300)})
    kept = make(
        tmp_path / "w",
        None,
        table=table,
        subject=None,
        row_id=None,
        edit=lambda text: text.replace('scale = "standard"', 'scale = "none"'),
    )
    with kept.open() as ws:
        assert exported_card(ws)["encoding"]["columns"][0]["fill"] == 0.5
        made = ws.forget(rows=list(range(0, 120, 2)))
        assert exported_card(ws)["encoding"]["columns"][0]["fill"] < 0.5
        assert made.action == ("retrain" if missing else "update")
        if missing:
            assert "what stands for a missing value of column 'flag' changed" in made.reason
        assert differing(ws) == []


def test_sums_follow_erasures_as_if_made_anew(workspace: Workspace) -> None:
    """In the process that erases, and in the next one."""
    for who in ("p0003", "p0010", "p0017"):
        workspace.forget(subjects=[who])
        with workspace.session() as session:
            loaded = session.open_model()
            kept, encoding = loaded.sums.kept, loaded.card.encoding
            fresh = constants.sums_of_training_rows(loaded.dataset, loaded.live, encoding)
            for name in ("known", "totals", "squares", "lengths"):
                assert getattr(kept, name) == getattr(fresh, name)
            for a, b in zip(kept.categories, fresh.categories, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_workspace_of_an_earlier_version_is_opened_and_its_constants_are_due(
    workspace: Workspace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card of format 1: unrounded constants, no word of min_rows."""
    logger = logging.getLogger("unfit")  # whatever tests of commands and services made of it
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    caplog.set_level(logging.WARNING, logger="unfit")
    with workspace.session() as session:
        card = session.open_model().card.to_json()
        card["format"] = 1
        del card["constants"]
        del card["encoding"]["min_rows"]
        for column in card["encoding"]["columns"]:
            del column["others"]
        _put(session, json.loads(json.dumps(card)))
    assert Encoding.from_json(card["encoding"]).min_rows is None
    assert workspace.predict(people.people(n=20)).rows == 20
    with Workspace(workspace.folder) as ws:
        assert "age" in ws.audit().constants
        assert "`unfit retrain`" in caplog.text
        made = ws.forget(subjects=["p0003"])
        assert made.action == "retrain"
        assert "by an earlier version of unfit" in made.reason
        assert exported_card(ws)["format"] == 2
        assert ws.audit().constants == ()


def test_a_dry_run_says_that_constants_would_change(workspace: Workspace) -> None:
    before = signature(workspace)
    old = sorted(set(people.people().to_pandas().query("age > 45")["person"]))
    said = workspace.forget(subjects=old, dry_run=True)
    assert said.action == "retrain"
    assert "of column 'age' changed after rounding" in said.reason
    assert signature(workspace) == before
