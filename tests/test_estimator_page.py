"""docs/estimator.md: its blocks run, one after another, and its figures are so."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import unfit
from unfit.cli.predict import predict
from unfit.service.api.schemas import PredictionOut
from unfit.workspace.export import _HOW

PAGE = Path(__file__).resolve().parents[1] / "docs" / "estimator.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")


def test_the_blocks_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert blocks
    exec("\n".join(blocks), {})
    assert "forgotten" in capsys.readouterr().out


def test_the_table_of_l2_and_c():
    lines = [
        re.findall(r"[^|`]+", line)
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| [\d,]+ \| `C", line)
    ]
    assert len(lines) == 5
    for line in lines:
        n, *rest = (cell.strip() for cell in line if cell.strip())
        n = int(n.replace(",", ""))
        for l2, cell in zip((1e-5, 1e-4, 1e-3, 1e-2), rest, strict=False):
            assert float(cell.removeprefix("C=")) == pytest.approx(1 / (l2 * n))
        assert float(rest[-1].removeprefix("l2=")) == pytest.approx(1 / n)


def test_several_classes_and_after_forgetting_as_scikit_learn():
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.ones(len(y))])
    l2, gone = 1e-2, [3, 77, 140]
    settings = {"l2": l2, "dtype": "float64", "tol": 1e-12, "fit_intercept": False}
    ours = unfit.LogisticRegression("retrain", **settings).fit(X, y).unlearn(gone)
    rest = np.delete(X, gone, 0), np.delete(y, gone)
    theirs = LogisticRegression(
        C=1 / (l2 * len(rest[1])), fit_intercept=False, tol=1e-10, max_iter=10_000
    )
    one_vs_rest = OneVsRestClassifier(theirs).fit(*rest)
    expected = np.concatenate([e.coef_ for e in one_vs_rest.estimators_])
    np.testing.assert_allclose(ours.coef_, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), one_vs_rest.predict_proba(X), atol=1e-5)


def test_wherever_probabilities_are_shown_it_is_said_what_they_are():
    root = PAGE.parents[1]
    texts = [(root / "docs" / name).read_text() for name in ("estimator.md", "guide.md", "api.md")]
    texts += [unfit.LogisticRegression.predict_proba.__doc__, _HOW]
    texts.append(PredictionOut.model_fields["probabilities"].description)
    texts.append(predict.__doc__)
    for text in texts:
        assert "one-vs-rest" in text
        assert "softmax" in text
