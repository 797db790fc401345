"""The load benchmark itself: a short run with a kill loses nothing, and its checks can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.alone
@pytest.mark.slow
def test_a_short_load_with_a_kill_loses_nothing(tmp_path):
    output = tmp_path / "figures.json"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.load",
            "--quick",
            "--seconds",
            "5",
            "--kills",
            "1",
            "--target-rate",
            "200",
            "--output",
            str(output),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(output.read_text())
    erasures = figures["erasures"]
    assert erasures["accepted"] == erasures["applied"] == 26
    assert erasures["lost"] == erasures["twice"] == erasures["remembered"] == []
    assert erasures["stale"] == 0
    assert figures["predictions"]["answered"] > 0
    assert [kill["what"] for kill in figures["kills"]] == ["api"]
    assert "accepted" in done.stdout


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.load import checks, erasures, phases

    return checks, erasures, phases


def test_a_prediction_by_a_version_too_old_is_seen(load):
    checks, erasures, phases = load
    sent = np.array([1.0, 3.0, 3.0, 5.0])
    answered = phases.Recording(
        due=sent,
        sent=sent,
        done=sent + 0.1,
        status=np.array([200, 200, 503, 200]),
        version=np.array([1, 1, 0, 3]),
        erasures=[],
        answers={},
        cut=0,
        unsent=0,
    )
    first = erasures.Erasure("a", "p", 0.0, in_force=2.0, version=2)
    second = erasures.Erasure("b", "q", 0.0, in_force=4.0, version=3)
    assert checks.stale(answered, []) == 0
    assert checks.stale(answered, [second]) == 0
    assert checks.stale(answered, [second, first]) == 1  # of version 1, sent at 3
