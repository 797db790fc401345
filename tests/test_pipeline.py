"""A pipeline forgets as a whole: its steps and its classifier are those of the rows that remain."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import unfit
from unfit.methods import METHODS

GONE = [3, 17, 40, 41]


@pytest.fixture(scope="module")
def rows():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:300, :8].copy()
    X[17] *= 50  # somebody who moves every mean
    return X, y[:300]


def model(method="retrain", **changes):
    settings = {"l2": 1e-3, "dtype": "float64", "tol": 1e-11, "random_state": 0, "epochs": 3}
    return unfit.LogisticRegression(method, **settings | changes)


def pipeline(*steps, method="retrain", **changes):
    named = [(type(step).__name__.lower(), step) for step in steps]
    return unfit.Pipeline([*named, ("model", model(method, **changes))])


STEPS = [
    (StandardScaler(),),
    (MinMaxScaler(), PCA(4, svd_solver="full")),
    (StandardScaler(), SelectKBest(k=5)),
    (unfit.MaxNormScaler(),),
    (),
]


@pytest.mark.parametrize(
    "steps", STEPS, ids=lambda steps: "+".join(type(s).__name__ for s in steps)
)
def test_forgetting_is_fitting_the_rest(rows, steps):
    X, y = rows
    pipe = pipeline(*steps).fit(X, y)
    assert pipe.unlearn(GONE[:2]) is pipe
    pipe.unlearn(GONE[2:])
    rest = np.delete(np.arange(len(y)), GONE)
    fresh = pipeline(*(clone(s) for s in steps)).fit(X[rest], y[rest])
    np.testing.assert_allclose(pipe.predict_proba(X), fresh.predict_proba(X), atol=1e-6)
    assert pipe.n_remaining_ == len(rest)
    assert np.flatnonzero(~pipe.remaining_).tolist() == GONE
    assert pipe.audit().remembering == ()


def test_the_scaler_of_a_plain_pipeline_remembers_and_ours_does_not(rows):
    """The mean before times n, less the mean after times n - 1, is the value that left."""
    X, y = rows
    plain = make_pipeline(StandardScaler(), model()).fit(X, y)
    with pytest.warns(unfit.FittedStepWarning, match="column 0 has mean 0.*unfit.Pipeline"):
        plain[-1].unlearn([17])
    ours = pipeline(StandardScaler()).fit(X, y).unlearn([17])
    rest = np.delete(X, 17, axis=0)
    np.testing.assert_allclose(ours[0].mean_, rest.mean(axis=0), rtol=1e-12)
    assert np.abs(plain[0].mean_ - rest.mean(axis=0)).max() > 0.01
    off = np.linalg.norm(plain[-1].coef_ - ours[-1].coef_) / np.linalg.norm(ours[-1].coef_)
    assert off > 0.01


def test_the_audit_sees_a_step_that_remembers(rows):
    X, y = rows
    pipe = pipeline(StandardScaler(), MinMaxScaler()).fit(X, y)
    pipe[-1].unlearn([17])  # the classifier alone
    audit = pipe.audit(X, y)
    assert audit.passed is False
    assert audit.outcome == "not forgotten"
    assert audit.remembering == ("standardscaler", "minmaxscaler")
    assert audit.verdict.startswith("not forgotten: standardscaler")
    assert "not forgotten: standardscaler" in str(audit)
    honest = pipeline(StandardScaler()).fit(X, y).unlearn([17]).audit(X, y)
    assert honest.remembering == ()
    assert honest.outcome == "forgotten"
    assert honest.n_deleted == 1
    assert honest.deleted_accuracy_retrained is not None
    assert honest.weight_distance < 1e-4


def test_an_unchanged_step_costs_no_training(rows, monkeypatch):
    X, y = rows
    pipe = pipeline(unfit.MaxNormScaler(), method="fisher").fit(X, y)
    monkeypatch.setattr(METHODS["fisher"], "train", None)
    pipe.unlearn([3])
    assert pipe[0].scale_ == unfit.MaxNormScaler().fit(np.delete(X, 3, 0)).scale_
    with pytest.raises(TypeError):  # row 17 is the longest by far: its constant goes with it
        pipe.unlearn([17])
    assert pipe.remaining_[17]  # and nothing has changed
    assert pipe[0].scale_ > 2**10
    monkeypatch.undo()
    before = pipe[0].scale_
    assert pipe.unlearn([17])[0].scale_ < before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_every_method_and_a_file(rows, method, sigma):
    X, y = rows
    scaled = np.ascontiguousarray(X, np.float64)
    pipe = pipeline(StandardScaler(), method=method, sigma=sigma).fit(scaled, y)
    pipe.unlearn([17]).prepare()
    file = pickle.dumps(pipe)
    assert scaled[17].tobytes() not in file
    assert scaled[18].tobytes() in file
    back = pickle.loads(file)
    with pytest.raises(ValueError, match=r"rows \[17\] were forgotten already"):
        back.unlearn([17])
    both = [p.unlearn([18, 0]).predict_proba(X) for p in (pipe, back)]
    np.testing.assert_allclose(*both, atol=1e-9)
    assert back.audit().n_deleted == 3
    two = copy.copy(pipe).unlearn([50])
    assert pipe.remaining_[50]
    assert not two.remaining_[50]


def test_without_data(rows):
    X, y = rows
    pipe = pipeline(StandardScaler()).fit(X, y).unlearn([17])
    bare = pickle.loads(pickle.dumps(pipe.without_data()))
    np.testing.assert_array_equal(bare.predict(X), pipe.predict(X))
    assert len(pickle.dumps(bare)) < 6_000
    for verb in ("unlearn", "audit", "prepare"):
        with pytest.raises(ValueError, match=f"{verb} needs the rows"):
            getattr(bare, verb)(*([[1]] if verb == "unlearn" else []))
    assert not hasattr(bare, "remaining_")


def test_a_notebook_shows_a_pipeline(rows):
    pipe = pipeline(StandardScaler())
    for shown in (pipe, pipe.fit(*rows), pipe.without_data()):
        assert "LogisticRegression" in shown._repr_html_()


def test_a_frame_with_categories_and_labels(rows):
    """A category that only the forgotten had leaves with them, and takes its column along."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 70, 80),
            "city": rng.choice(["a", "b"], 80),
        },
        index=[f"p{i}" for i in range(80)],
    )
    frame.loc["p7", "city"] = "nowhere else"
    frame.loc["p8", "age"] = np.nan
    y = (frame["age"].fillna(40) > 45).astype(int)
    before = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        (OneHotEncoder(sparse_output=False), ["city"]),
    )
    pipe = pipeline(before).fit(frame, y)
    assert pipe[-1].coef_.shape == (1, 4)
    pipe.unlearn(pd.Index(["p7"]))
    assert pipe[-1].coef_.shape == (1, 3)
    assert b"nowhere else" not in pickle.dumps(pipe)
    rest = frame.drop("p7")
    fresh = pipeline(clone(before)).fit(rest, y.drop("p7"))
    np.testing.assert_allclose(pipe.predict_proba(rest), fresh.predict_proba(rest), atol=1e-8)


@pytest.mark.parametrize("kind", ["column", "y", "index", "levels", "categories in levels"])
def test_pandas_keeps_no_name_of_the_forgotten(rows, kind):
    """Where rows are taken from a table, pandas keeps the categories and levels of the others."""
    X, y = rows
    frame = pd.DataFrame(X).add_prefix("c")
    names = [f"person {i}" for i in range(len(X))]
    names[17] = "Ada Lovelace"
    labels = pd.Series(y)
    if kind == "column":
        frame["who"] = pd.Categorical(names)
    elif kind == "y":
        labels = pd.Series(pd.Categorical(np.where(y == 1, "ill", "well")))
        labels = labels.cat.add_categories("Ada Lovelace")
    elif kind == "index":
        frame.index = pd.CategoricalIndex(names)
    else:
        level = names if kind == "levels" else pd.CategoricalIndex(names)
        frame.index = pd.MultiIndex.from_arrays([level, np.arange(len(X)) % 3])
    keep = make_column_transformer((StandardScaler(), list(frame.columns[:8])))
    pipe = pipeline(keep).fit(frame, labels)
    assert b"Ada Lovelace" in pickle.dumps(pipe)
    pipe.unlearn(GONE)
    file = pickle.dumps(pipe)
    assert b"Ada Lovelace" not in file
    back = pickle.loads(file)
    assert len(back.unlearn([5]).predict(frame)) == len(X)
    if kind not in ("column", "y"):
        clf = model().fit(frame, labels)
        clf.unlearn(frame.index[GONE])
        assert b"Ada Lovelace" not in pickle.dumps(clf)


def test_what_cannot_be_forgotten_is_refused(rows, tmp_path):
    X, y = rows
    cached = unfit.Pipeline([("s", StandardScaler()), ("m", model())], memory=str(tmp_path))
    with pytest.raises(ValueError, match="memory must be None"):
        cached.fit(X, y)
    with pytest.raises(TypeError, match="last step must be an unfit.LogisticRegression"):
        unfit.Pipeline([("s", StandardScaler()), ("m", Theirs())]).fit(X, y)
    with pytest.raises(ValueError, match="fit parameters"):
        pipeline(StandardScaler()).fit(X, y, standardscaler__sample_weight=np.ones(len(y)))
    pipe = pipeline(StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="unknown rows"):
        pipe.unlearn([300])
    assert pipe.n_remaining_ == 300
    assert pipe.unlearn([]).n_remaining_ == 300


def test_it_is_scikit_learns_otherwise(rows):
    X, y = rows
    pipe = pipeline(StandardScaler(), unfit.MaxNormScaler())
    assert cross_val_score(pipe, X[20:], y[20:], cv=3).mean() > 0.8
    assert clone(pipe).fit(X, y).set_params(model__l2=1e-2)["model"].l2 == 1e-2
    skipping = unfit.Pipeline([("none", "passthrough"), ("model", model())]).fit(X / 1000, y)
    assert skipping.unlearn([0]).n_remaining_ == 299


def test_a_fit_that_fails_leaves_the_fitted_pipeline_as_it_was(rows):
    X, y = rows
    pipe = pipeline(StandardScaler(), unfit.MaxNormScaler()).fit(X, y).unlearn([17])
    before = pipe.predict_proba(X)
    with pytest.raises(ValueError, match="one class only"):
        pipe.fit(1000 * X + 5, np.zeros(len(y)))
    np.testing.assert_array_equal(pipe.predict_proba(X), before)
    assert pipe.unlearn([18]).audit().passed
    scaler = pipe.steps[0][1]
    assert pipe.fit(1000 * X, y).steps[0][1] is scaler  # in place, as scikit-learn does


@pytest.mark.parametrize(
    ("scaled", "sign"),
    [
        (lambda X: StandardScaler().fit_transform(X), "column 0 has mean 0"),
        (lambda X: StandardScaler(with_mean=False).fit_transform(X), "has standard deviation 1"),
        (lambda X: PCA(3).fit_transform(X), "column 0 has mean 0"),
        (lambda X: X / np.linalg.norm(X, axis=1).max(), "the longest row has length 1"),
        (lambda X: X / np.linalg.norm(X, axis=1, keepdims=True), None),
        (lambda X: X / 512, None),
        (lambda X: X[:, :1] / np.abs(X[:, 0]).max(), "the longest row has length 1"),
        (lambda X: (X[:, :1] > np.median(X[:, 0])).astype(float), None),  # yes and no
        (lambda X: np.eye(4)[np.arange(len(X)) % 4][:, 1:], None),  # categories but the first
        (lambda X: np.where(X[:, :1] > np.median(X[:, 0]), [1, 0], [0, 0.1]), None),
        (lambda X: np.sign(X - np.median(X, axis=0)), None),
        (lambda X: unfit.MaxNormScaler().fit_transform(X), None),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_signs_of_a_fitted_step(rows, scaled, sign, dtype):
    from unfit.fitted_steps import sign_of_fitted_step

    found = sign_of_fitted_step(np.asarray(scaled(rows[0]), dtype))
    assert (found is None) == (sign is None)
    assert sign is None or sign in found
