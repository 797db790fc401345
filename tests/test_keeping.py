"""What an estimator keeps, and what goes with it into files: of rows, those that remain at most."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import unfit
from unfit.methods import METHODS
from unfit.methods.onestep import STREAM_TOLERANCE

GONE = [17, 4, 250]
QUICK = {"epochs": 3, "batch_size": 64, "random_state": 0, "l2": 1e-3}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) / 4  # no value twice
    return X, (X[:, 0] + 0.2 * rng.standard_normal(400) > 0).astype(int)


def with_joblib(clf):
    file = io.BytesIO()
    joblib.dump(clf, file)
    return file.getvalue()


def values_of(rows):
    """The bytes of rows, whole and cell by cell, in both precisions."""
    for row in rows:
        for kind in (np.float64, np.float32):
            yield row.astype(kind).tobytes()
        for value in row:  # eight bytes do not come about by chance
            yield np.float64(value).tobytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_a_file_holds_no_row_that_was_forgotten(rows, method, kind, sigma):
    X, y = rows[0].astype(kind), rows[1]
    dtype = np.dtype(kind).name
    clf = unfit.LogisticRegression(method, sigma=sigma, dtype=dtype, **QUICK).fit(X, y)
    clf.unlearn(GONE)
    clf.prepare()
    files = [pickle.dumps(clf), with_joblib(clf), pickle.dumps(copy.deepcopy(clf))]
    files.append(pickle.dumps(clf.__getstate__()))
    files.append(pickle.dumps(pickle.loads(files[0])))
    for file in files:
        assert X[18].tobytes() in file  # what remains is there
        for value in values_of(X[GONE]):
            assert value not in file


def test_the_label_leaves_with_its_row(rows):
    X, _ = rows
    y = np.zeros(len(X), np.int64)
    y[::2] = 1
    y[[17, 33]] = 2
    clf = unfit.LogisticRegression(**QUICK).fit(X, y).unlearn([17])
    back = pickle.loads(pickle.dumps(clf))
    assert np.flatnonzero(back._data.codes == 2).tolist() == [33]
    rows_kept = clf._data.__reduce__()[1][0]
    assert np.flatnonzero(rows_kept.codes == 2).tolist() == [32]


def test_positions_keep_their_meaning(rows):
    X, y = rows
    kept = unfit.LogisticRegression(**QUICK).fit(X, y).unlearn(GONE)
    back = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(back.remaining_, kept.remaining_)
    with pytest.raises(ValueError, match=r"rows \[17\] were forgotten already"):
        back.unlearn([17])
    close = {"rtol": 0, "atol": 2 * STREAM_TOLERANCE * 1e-8 / 1e-3}  # each so near the optimum
    np.testing.assert_allclose(back.unlearn([18, 5]).coef_, kept.unlearn([18, 5]).coef_, **close)
    assert not back.remaining_[18]
    # and once more, from a copy of the copy
    again = pickle.loads(pickle.dumps(back))
    np.testing.assert_allclose(again.unlearn([300]).coef_, kept.unlearn([300]).coef_, **close)


def test_a_file_is_about_as_large_as_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400)).astype(np.float32)
    clf = unfit.LogisticRegression(**QUICK).fit(X, (X[:, 0] > 0).astype(int))
    assert len(pickle.dumps(clf)) < 1.1 * X.nbytes
    few = pickle.loads(pickle.dumps(clf.unlearn(np.arange(0, 300, 2))))
    assert len(pickle.dumps(few)) < 0.6 * X.nbytes


def test_statistics_are_made_again(rows):
    X, y = rows
    warm = unfit.LogisticRegression(dtype="float64", **QUICK).fit(X, y)
    cold = pickle.loads(pickle.dumps(warm))
    assert cold._state.statistics is None
    np.testing.assert_allclose(cold.unlearn([3]).coef_, warm.unlearn([3]).coef_, rtol=1e-8)
    assert cold.prepare()._state.statistics is not None


@pytest.mark.parametrize("method", METHODS)
def test_without_data(rows, method):
    X, y = rows
    clf = unfit.LogisticRegression(method, sigma=1.0, **QUICK).fit(X, y).unlearn(GONE)
    bare = clf.without_data()
    np.testing.assert_array_equal(bare.predict_proba(X), clf.predict_proba(X))
    assert bare.n_remaining_ == clf.n_remaining_
    assert bare.random_state is None
    file = pickle.dumps(bare)
    assert len(file) < 5_000
    secret = clf._state.linear_term if method == "influence" else clf._state.centre
    for value in [*X.astype(np.float32), *X, *secret, *secret.ravel()]:
        assert value.tobytes() not in file
    for verb in ("unlearn", "audit", "prepare"):
        with pytest.raises(ValueError, match=rf"{verb} needs the rows of fit.*without_data"):
            getattr(pickle.loads(file), verb)(*([[1]] if verb == "unlearn" else []))
    assert clf.unlearn([1]).n_remaining_ == len(y) - 4  # the original goes on


def test_an_audit_of_a_copy_says_which_rows_it_lacks(rows):
    X, y = rows
    clf = unfit.LogisticRegression(**QUICK).fit(X, y).unlearn(GONE)
    audit = pickle.loads(pickle.dumps(clf)).audit()
    assert audit.n_deleted == 3
    assert audit.deleted_accuracy_updated is None
    assert clf.audit().deleted_accuracy_updated is not None


def test_relatives_hold_no_rows(rows):
    X, y = rows
    clf = unfit.LogisticRegression(**QUICK).fit(X, y).unlearn(GONE)
    assert not hasattr(clone(clf), "_data")
    assert len(pickle.dumps(clf.get_params())) < 1_000
    assert len(repr(clf)) < 500
    two = copy.copy(clf).unlearn([30])
    assert clf.remaining_[30]  # copies share no mask
    assert not two.remaining_[30]


def test_names_of_rows_leave_with_them(rows):
    X, y = rows
    names = [f"person-{i}@example.org" for i in range(len(y))]
    frame = pd.DataFrame(X, index=names)
    clf = unfit.LogisticRegression(**QUICK).fit(frame, y)
    clf.unlearn(pd.Index(["person-17@example.org"]))
    file = pickle.dumps(clf)
    assert b"person-17@example.org" not in file
    assert b"person-18@example.org" in file
    back = pickle.loads(file)
    with pytest.raises(ValueError, match="unknown labels"):
        back.unlearn(pd.Index(["person-17@example.org"]))
    assert not back.unlearn(pd.Index(["person-18@example.org"])).remaining_[18]


def test_the_bound_of_a_stored_run_is_nobodys_length():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)) / 10
    X[7] *= 3.3 / np.linalg.norm(X[7])
    clf = unfit.LogisticRegression("deltagrad", fit_intercept=False, **QUICK)
    clf.fit(X, (X[:, 0] > 0).astype(int))
    assert clf._state.run.radius == 4.0
    clf.unlearn([7])
    rest = np.linalg.norm(np.delete(X, 7, 0), axis=1).max()
    assert rest <= clf._state.run.radius < 2 * rest * 1.01
