"""The centre of a noisy model stays in the workspace, and the next process goes on from it."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from workspaces import Kept, make

from unfit.workspace import Workspace


@pytest.fixture(params=["fisher", "deltagrad"])
def noisy(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    def quick(text: str) -> str:
        return text.replace("epochs = 200", "epochs = 5  ").replace(
            'retrain_when = ["disparity"]', 'retrain_when = ["never"]'
        )

    return make(tmp_path / "w", None, method=request.param, sigma=10.0, edit=quick)


def centre_of(ws: Workspace) -> np.ndarray:
    with ws.session() as session:
        return session.open_model().state.centre


def test_the_next_process_starts_from_the_centre(noisy: Kept, tmp_path: Path) -> None:
    other = noisy.copy(tmp_path / "other")
    with noisy.open() as ws:
        assert np.linalg.norm(ws.active_model().weights - centre_of(ws)) > 1
        for who in ("p0001", "p0002"):
            ws.forget(subjects=[who])
        together = centre_of(ws)
    for who in ("p0001", "p0002"):
        with other.open() as ws:
            ws.forget(subjects=[who])
    with other.open() as ws:
        np.testing.assert_allclose(centre_of(ws), together, rtol=1e-6, atol=1e-7)


def test_what_is_taken_away_has_no_centre(noisy: Kept) -> None:
    with noisy.open() as ws:
        ws.forget(subjects=["p0001"])
        centre = centre_of(ws)
        _, content = ws.export()
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            arrays = load_arrays(file.read("model.safetensors"))
            shown = [file.read(name) for name in file.namelist()]
        assert list(arrays) == ["weights"]
        np.testing.assert_array_equal(arrays["weights"], ws.active_model().weights)
        shown.append(json.dumps([repr(ws.status()), repr(ws.active_model())]).encode())
    for value in centre.ravel():
        assert not any(value.tobytes() in part for part in shown)
        assert not any(repr(float(value)).encode() in part for part in shown)


def test_a_file_from_before_centres_were_kept_is_gone_on_with(noisy: Kept) -> None:
    """Its centre is trained again from the weights it has, and the next file holds it."""
    with noisy.open() as ws, ws.session() as session:
        loaded, before = session.open_model(), session.open_model().state.centre
        arrays = session.artifacts.arrays(session.active.model_sha)
        old = {name: np.array(value) for name, value in arrays.items() if name != "centre"}
        assert len(old) == len(arrays) - 1
        sha = session.artifacts.put_arrays(old)
        from unfit.workspace.model import open_model

        version = replace(session.active, model_sha=sha, statistics_sha=None)
        found = open_model(version, session.artifacts, session.layout).state
        np.testing.assert_allclose(found.centre, before, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.weights, loaded.state.weights)


def test_weights_from_before_an_erasure_are_not_kept_in_memory(noisy: Kept) -> None:
    seen = 0
    with noisy.open() as ws, ws.session() as session:
        before = session.open_model().state
        for number in range(1, 6):
            ws.forget(subjects=[f"p{number:04}"])
            model = session.open_model()
            mine = model.state.weights, model.state.centre
            for weights, _ in model.test._kept:  # none after a held-out person
                assert any(np.array_equal(weights, one) for one in mine)
                assert not np.array_equal(weights, before.weights)
                seen += 1
    assert seen > 1
