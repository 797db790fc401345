"""What the parameters of the classifiers may be, as scikit-learn checks them at `fit`."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

CONSTRAINTS: dict[str, list[object]] = {
    "method": [str],
    "l2": [Interval(Real, 0, None, closed="neither")],
    "C": [Interval(Real, 0, None, closed="neither"), None],
    "penalize_intercept": ["boolean"],
    "sigma": [Interval(Real, 0, None, closed="left")],
    "deletion_batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "period": [Interval(Integral, 1, None, closed="left")],
    "burn_in": [Interval(Integral, 0, None, closed="left")],
    "solver": [StrOptions({"auto", "newton", "sgd"})],
    "epochs": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "warm_start": ["boolean"],
    "dtype": [StrOptions({"float32", "float64"})],
    "random_state": ["random_state", np.random.Generator],
    "engine": [str, callable, None],
    "options": [dict, None],
    "epsilon": [Interval(Real, 0, None, closed="left"), None],
    "delta": [Interval(Real, 0, 1, closed="neither")],
    "noise": [Interval(Real, 0, None, closed="neither")],
}
