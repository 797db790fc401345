"""No decision of a certified workspace looks at the noise: a decision that did would tell of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from workspaces import make

from unfit.certify.agreement import agreement
from unfit.certify.certifier import Certifier
from unfit.stopwatch import Stopwatch
from unfit.workspace import Workspace
from unfit.workspace.erasure import resolve_ids
from unfit.workspace.unlearning import Evaluation, Unlearning

LEAVING = [("subject", f"p{i:04d}") for i in range(40)]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    at = tmp_path_factory.mktemp("unseen") / "w"
    with make(at, None, random_state=None, epsilon=1.0).open() as ws:
        yield ws


def evaluated(ws: Workspace, noise: float) -> Evaluation:
    """What is found of an erasure where the active version was released with so much noise."""
    with ws.session() as session:
        model = session.ready_model()
        before, centre = model.state, model.state.centre
        noisy = centre + noise * np.random.default_rng(7).standard_normal(centre.shape)
        model.state = replace(before, weights=noisy, kept_centre=centre)
        try:
            return Unlearning(
                session=session,
                before=session.require_version(),
                model=model,
                positions=resolve_ids(session, LEAVING).positions,
                watch=Stopwatch(),
            ).evaluate(np.random.default_rng(0))
        finally:
            model.state = before


def test_facts_and_verdict_are_the_same_whatever_the_noise(certified: Workspace) -> None:
    quiet, loud = evaluated(certified, 0.0), evaluated(certified, 100.0)
    assert quiet.step.facts == loud.step.facts
    assert quiet.verdict == loud.verdict
    assert quiet.ready is not None
    assert loud.ready is not None
    np.testing.assert_array_equal(quiet.ready.polished.centre, loud.ready.polished.centre)


def test_what_is_kept_of_a_decision_does_not_tell_the_distance_that_was_found(
    certified: Workspace, tmp_path: Path
) -> None:
    """The bound that was reached depends on the rows; what was asked for does not."""
    found = evaluated(certified, 0.0)
    assert found.ready is not None
    centre, reach = found.ready.ball
    certifier = found.ready.releases.certifier
    assert reach == pytest.approx(certifier.room + certifier.tol / certifier.l2)  # a retraining's
    assert found.ready.polished.distance <= certifier.room
    said = reach / np.linalg.norm(centre)
    assert found.step.facts.distance is not None
    assert said <= found.step.facts.distance <= 2.2 * said
    power = np.log2(found.step.facts.distance)  # a power of two: not the length of the centre
    assert power - np.floor(power) < np.log2(1.1)


def test_labels_are_guaranteed_by_the_distance_that_was_asked_for(certified: Workspace) -> None:
    version = certified.store.versions.active()
    assert version is not None
    assert version.held_out is not None
    with certified.session() as session:
        model = session.open_model()
        centre, released = model.state.centre, model.state.weights
        certifier = model.releases.certifier  # type: ignore[union-attr]
        assert isinstance(certifier, Certifier)
        share = agreement(model.test_rows(), released, centre, certifier.promise.reach)
    assert version.held_out.agreement == share
    assert share is not None
    assert share > 0.9
