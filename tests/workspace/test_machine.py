"""A state machine over the verbs: whatever order they come in, nothing is lost or done twice."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from workspaces import make, signature

import people
from remaining import differing
from unfit import points
from unfit.lifecycle import policies
from unfit.points import POINTS
from unfit.workspace import Workspace

pytestmark = pytest.mark.slow

SUBJECTS = [f"p{i:04d}" for i in range(60)] + ["nobody", "p9999"]
ROWS = [f"r{i:05d}" for i in range(0, 200, 7)]
TABLE = people.people(n=200, subjects=60)
_base: list[Path] = []


class Crash(BaseException):
    """A process that ends here, as far as the workspace can tell."""


def base() -> Path:
    """A trained workspace, made once."""
    if not _base:
        root = Path(tempfile.mkdtemp(prefix="unfit-machine-"))
        make(root / "w", None, table=TABLE, threshold=2.0)
        _base.append(root / "w")
    return _base[0]


class Pipeline(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="unfit-machine-"))
        shutil.copytree(base(), self.root / "w")
        self.ws = Workspace(self.root / "w" / "ws")
        self.accepted: dict[str, tuple[list[str], list[str]]] = {}
        self.forgotten: set[int] = set()
        self.keys = 0
        self.backup: tuple[Path, set[str]] | None = None

    def new_key(self) -> str:
        self.keys += 1
        return f"k{self.keys:03d}"

    def teardown(self) -> None:
        self.check_replay()
        points.observer = None
        self.ws.close()
        shutil.rmtree(self.root)

    def reopen(self) -> None:
        points.observer = None
        self.ws.close()
        self.ws = Workspace(self.root / "w" / "ws")

    @rule(
        subjects=st.lists(st.sampled_from(SUBJECTS), max_size=4),
        rows=st.lists(st.sampled_from(ROWS), max_size=3),
    )
    def submit(self, subjects: list[str], rows: list[str]) -> None:
        if subjects or rows:
            key = self.new_key()
            self.ws.submit(subjects=subjects, rows=rows, key=key)
            self.accepted[key] = (subjects, rows)

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def duplicate(self, data: st.DataObject) -> None:
        """The same key with the same ids, in another order, is the same request."""
        key = data.draw(st.sampled_from(sorted(self.accepted)))
        subjects, rows = self.accepted[key]
        shuffled = data.draw(st.permutations(subjects)), data.draw(st.permutations(rows))
        self.ws.submit(subjects=shuffled[0], rows=shuffled[1], key=key)

    @rule()
    def apply(self) -> None:
        self.ws.apply()

    @rule(subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=3, unique=True))
    def forget_now(self, subjects: list[str]) -> None:
        key = self.new_key()
        self.ws.forget(subjects=subjects, key=key)
        self.accepted[key] = (subjects, [])

    @rule(point=st.sampled_from([p for p in POINTS if not p.startswith("train.")]))
    def crash(self, point: str) -> None:
        """The next application of requests, or the next retraining, dies at a point."""

        def die(name: str) -> None:
            if name == point:
                raise Crash

        points.observer = die
        try:
            if point.startswith(("retrain.", "prepare.")):
                self.ws.retrain()
                self.ws.prepare()
            else:
                self.ws.apply()
        except Crash:
            pass
        self.reopen()

    @rule()
    def retrain(self) -> None:
        self.ws.retrain()

    @rule()
    def audit(self) -> None:
        before = signature(self.ws)
        assert self.ws.audit().audit.n_remaining > 0
        after = signature(self.ws)
        if not before["purge_due"]:
            assert before["active"] == after["active"]
            assert before["live"] == after["live"]

    @rule()
    def back_up(self) -> None:
        with self.ws.session():
            pass
        self.ws.store.purges.vacuum()
        at = self.root / "backup"
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(self.root / "w" / "ws", at)
        self.backup = (at, set(self.accepted))

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore_backup(self) -> None:
        """A backup comes back without the deletions since; the list outside it brings them."""
        assert self.backup is not None
        at, keys = self.backup
        self.ws.apply()
        gone = {row for row, _ in self.ws.store.forgotten.rows()}
        self.ws.close()
        shutil.rmtree(self.root / "w" / "ws")
        shutil.copytree(at, self.root / "w" / "ws")
        self.ws = Workspace(self.root / "w" / "ws")
        self.ws.active_model()  # whoever serves has caught up
        assert {row for row, _ in self.ws.store.forgotten.rows()} == gone
        self.accepted = {key: ids for key, ids in self.accepted.items() if key in keys}

    @invariant()
    def nothing_is_lost(self) -> None:
        points.observer = None
        counts = self.ws.store.requests.counts()
        known = {r.key for r in self.ws.store.requests.find() if not r.key.startswith("restored-")}
        assert known == set(self.accepted)
        assert sum(counts.values()) == len(self.ws.store.requests.find())

    @invariant()
    def every_row_is_forgotten_once(self) -> None:
        with self.ws.session() as session:
            rows = [row for row, _ in self.ws.store.forgotten.rows()]
            assert len(rows) == len(set(rows))
            assert self.forgotten <= set(rows)
            self.forgotten = set(rows)
            dataset = session.dataset()
            live = set(dataset["numbers"][dataset.live].tolist())
            assert live == set(range(TABLE.num_rows)) - set(rows)

    @invariant()
    def constants_are_a_fit_on_what_remains(self) -> None:
        if self.ws.store.versions.active().model_sha is not None:  # type: ignore[union-attr]
            assert differing(self.ws) == []

    def check_replay(self) -> None:
        """The active weights are those of the same decisions, made without any accident."""
        with self.ws.session() as session:
            active = session.require_version()
            weights = None if active.model_sha is None else session.open_model().state.weights
            history = self.ws.store.versions.find()
        ids = TABLE["record"].to_pylist()
        gone: dict[int, list[str]] = {}
        for row, number in self.ws.store.forgotten.rows():
            gone.setdefault(number, []).append(ids[row])
        clean = self.root / "clean"
        shutil.copytree(base(), clean)
        with Workspace(clean / "ws") as again:
            for version in history[1:]:
                always = version.kind == "retrained"
                again._session.policy = policies.Always() if always else policies.Never()
                if version.deleted:
                    again.forget(rows=gone[version.number])
                else:
                    again.retrain()
            if weights is not None:
                with again.session() as session:
                    np.testing.assert_allclose(
                        session.open_model().state.weights, weights, rtol=1e-8, atol=1e-10
                    )


Pipeline.TestCase.settings = settings(max_examples=12, stateful_step_count=14, deadline=None)
TestPipeline = Pipeline.TestCase
