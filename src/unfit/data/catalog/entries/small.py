"""Three small sets that come with scikit-learn: a quick run that needs no file."""

import numpy as np

from unfit.data.catalog import scaling
from unfit.data.catalog.entry import Entry, Parts, RawArrays, Training

SEED = 0
_TRAINING = Training(epochs=200, batch_size=64, burn_in=10)


def _digits(raw: RawArrays) -> Parts:
    """Ten digits of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _scaled(X, y)


def _digits_b(raw: RawArrays) -> Parts:
    """0-4 against 5-9."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _scaled(X, y >= 5)


def _scaled(X: np.ndarray, y: np.ndarray) -> Parts:
    """A fifth for testing; one mean and one deviation; the largest norm."""
    test = scaling.stratified(y, len(y) // 5, SEED)
    X_train, X_test = (X[rows].astype(np.float32) for rows in (~test, test))
    scaling.standardise_by_one(X_train, X_test)
    scaling.max_norm(X_train, X_test)
    return Parts(X_train, y[~test].astype(np.int64), X_test, y[test].astype(np.int64))


def _breast_cancer(raw: RawArrays) -> Parts:
    """Each column standardised, since an area is a thousand times a smoothness; as above then."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    test = scaling.stratified(y, len(y) // 5, SEED)
    X = scaling.standardise_columns(X, test).astype(np.float32)
    X_train, X_test = X[~test], X[test]
    scaling.max_norm(X_train, X_test)
    return Parts(X_train, y[~test].astype(np.int64), X_test, y[test].astype(np.int64))


_DIGITS = "Alpaydin and Kaynak 1998, Optical recognition of handwritten digits, UCI"

ENTRIES = (
    Entry(
        name="digits",
        title="digits",
        about="Handwritten digits of 8 x 8 pixels, ten classes.",
        citation=_DIGITS,
        terms="CC BY 4.0 (UCI); comes with scikit-learn",
        file_sets=(),
        prepare=_digits,
        training=_TRAINING,
        intercept=True,
        target=3,
        volumes=(0.01, 0.05, 0.075),
        theta=0.09,
    ),
    Entry(
        name="digits-b",
        title="digits-b",
        about="Handwritten digits of 8 x 8 pixels, 0-4 against 5-9.",
        citation=_DIGITS,
        terms="CC BY 4.0 (UCI); comes with scikit-learn",
        file_sets=(),
        prepare=_digits_b,
        training=_TRAINING,
        intercept=True,
        volumes=(0.05, 0.1, 0.2),
    ),
    Entry(
        name="breast-cancer",
        title="breast cancer",
        about="Cell nuclei of breast masses, malignant against benign.",
        citation="Wolberg, Mangasarian, Street and Street 1993, Breast cancer Wisconsin, UCI",
        terms="CC BY 4.0 (UCI); comes with scikit-learn",
        file_sets=(),
        prepare=_breast_cancer,
        training=_TRAINING,
        intercept=True,
        target=0,
        volumes=(0.05, 0.1, 0.2),
        theta=0.3,
    ),
)
