"""The scikit-learn face: a classifier with the verb that was missing.

May know methods, engines and the audit; the numbers are computed there.
"""

import warnings
from copy import copy, deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unfit.audit import Attack, Audit, Claim, Effort, Question, attack, compare
from unfit.certify import Certificate, Promise, Releases, ReleaseTest, certified_settings
from unfit.certify.shadow_models import SPLITS, TARGETS, Size
from unfit.core.losses import LOGISTIC, Loss, SquaredError, SquaredHinge
from unfit.core.objective import Rows
from unfit.core.predictions import class_probabilities, margins, predicted_classes
from unfit.core.sparse_rows import make_rows
from unfit.engines.base import Engine, make_engine
from unfit.fitted_steps import FittedStepWarning, sign_of_fitted_step
from unfit.methods import METHODS, OFFERED, Method, Settings, State
from unfit.methods.stream import Stream
from unfit.progress import ProgressCallback
from unfit.selection import Labels, positions, some
from unfit.step_size import UnscaledRowsWarning, overshooting

NOBODY = np.zeros(0, np.int64)


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """A linear classifier that can forget rows it was trained on: one loss makes one class.

    Minimises  sum_i loss(x_i.w, t_i) + (l2 n / 2) |w|^2,  one-vs-rest for more than two classes;
    the intercept is regularised like the rest. `unlearn(rows)` then removes rows. A classifier with
    another loss is a subclass that names it (`loss = MyLoss()`; see core.losses). Parameters,
    attributes and what is kept are described at LogisticRegression.
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "method": [str],
        "l2": [Interval(Real, 0, None, closed="neither")],
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
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state", np.random.Generator],
        "engine": [str, None],
        "options": [dict, None],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "noise": [Interval(Real, 0, None, closed="neither")],
    }

    loss: ClassVar[Loss] = LOGISTIC
    _data: Engine
    _state: State
    _fitted: Method  # as `fit` found it: parameters set later wait for the next fit
    _releases: Releases | None = None  # of a certified model
    certificate_: Certificate | None

    def __init__(
        self,
        method: str = "fisher",
        *,
        l2: float = 1e-4,
        sigma: float = 0.0,
        deletion_batch_size: int | None = None,
        period: int = 50,
        burn_in: int = 10,
        solver: str = "auto",
        epochs: int = 200,
        batch_size: int | None = 512,
        learning_rate: float = 1.0,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        dtype: str = "float32",
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        engine: str | None = None,
        options: dict[str, Any] | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        noise: float = 1e-3,
    ) -> None:
        self.method = method
        self.l2 = l2
        self.sigma = sigma
        self.deletion_batch_size = deletion_batch_size
        self.period = period
        self.burn_in = burn_in
        self.solver = solver
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.random_state = random_state
        self.engine = engine
        self.options = options
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, *, progress: ProgressCallback | None = None) -> Self:
        """Train on all rows, and prepare for the first `unlearn`.

        progress: called as progress("training", epochs_done, epochs) while SGD runs.
        """
        before = self.__dict__.copy()
        try:
            self._fit(X, y, progress)
        except BaseException:
            self.__dict__ = before  # scikit-learn notes the width of X before all else
            raise
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike, progress: ProgressCallback | None) -> None:
        settings = Settings(
            **{name: getattr(self, name) for name in OFFERED},
            options=tuple(sorted((self.options or {}).items())),
        )
        if self.epsilon is not None:
            settings = self._certified(settings)
        method = METHODS.find(self.method)(settings)
        matrix, labels = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=self._dtype,
            order="C",
            ensure_min_samples=2,
            y_numeric=False,
        )
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y holds one class only ({classes[0]!r}); a classifier needs rows of two classes"
            )
        rng = _generator(self.random_state)
        rows = make_rows(matrix, codes.astype(np.int32), self.fit_intercept, self.loss)
        data = make_engine(rows, len(classes), name=self.engine)
        method.require(data)
        releases, certificate = None, None
        if self.epsilon is not None:
            promise = Promise(self.epsilon, self.delta, self.noise)
            releases = Releases.open(promise, settings, data)
        state = method.train(data, rng, progress)
        if releases is not None:
            releases, state, certificate = releases.publish(None, state, data, NOBODY)
        state = method.prepare(state, data)
        if releases is not None:
            releases = releases.prepared(state, data)
        if method.solver == "sgd":
            too_long = overshooting(data, settings.learning_rate, settings.l2)
            if too_long is not None:
                warnings.warn(too_long, UnscaledRowsWarning, stacklevel=4)
        self.classes_: np.ndarray = classes
        self._class_counts = np.bincount(codes)
        self._data, self._rng, self._fitted = data, rng, method
        self._labels = Labels.of(X, y)
        self._sign, self._steps_forget = sign_of_fitted_step(matrix), False
        self._releases, self.certificate_ = releases, certificate
        self._activate(state)

    def _certified(self, settings: Settings) -> Settings:
        if self.random_state is not None:
            raise ValueError(
                "random_state makes the noise known to whoever knows the seed, and then it hides "
                "nothing: leave it out where epsilon is given"
            )
        return certified_settings(settings)

    def unlearn(self, rows: ArrayLike) -> Self:
        """Forget rows.

        rows: positions in the X of fit, as an array or list of whole numbers; a mask over the rows
        of fit; or, if X (or y) was a data frame, a pandas Index of its labels, which names every
        row that has one of them. A Series of numbers could be either, and is refused.

        FISHER and INFLUENCE take mini-batches of deleted rows in the order given here.

        Unknown, repeated or already forgotten rows, and requests that would empty a class, are
        refused with a ValueError that names them; then nothing has changed. An empty request is a
        no-op. Parameters set after `fit` take effect at the next `fit`.
        """
        self._require_rows("unlearn")
        deleted = self._request(rows)
        if len(deleted) == 0:
            return self
        before, read = self._state, self._data.rows_read
        state = self._fitted.unlearn(before, self._data, deleted, self._rng)
        if self._releases is not None:
            published = self._releases.publish(before, state, self._data, deleted, read)
            self._releases, state, self.certificate_ = published
        leaving = np.bincount(self._data.codes[deleted], minlength=len(self.classes_))
        self._data.forget(deleted)
        self._class_counts = self._class_counts - leaving
        self._activate(state)
        return self

    def prepare(self) -> Self:
        """Compute ahead what makes the next `unlearn` cheap; the model does not change."""
        self._require_rows("prepare")
        self._state = self._fitted.prepare(self._state, self._data)
        if self._releases is not None:
            self._releases = self._releases.prepared(self._state, self._data)
        return self

    def audit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        threshold: float = 1.0,
        draws: int | None = None,
        random_state: int | None = None,
        attack: bool = False,
        splits: int = SPLITS,
        targets: int = TARGETS,
        progress: ProgressCallback | None = None,
    ) -> Audit:
        """Retrain independently on the remaining rows and compare; the model does not change.

        X, y: test rows; by default the remaining training rows. threshold: the AccDis (in percent)
        and the mean difference of probabilities (in points) up to which the verdict can be
        "forgotten"; it rests on the weights first. draws: retrainings with fresh noise for AccDis
        (by default 5 if sigma > 0, else 1).

        attack: also try to tell releases from those of a retraining, of this model and of models
        trained on so many random halves of the rows (splits), from each of which the most
        influential rows (targets) are unlearned; the result is `attack` of what is returned.
        progress: called as progress("shadow models", done, splits).
        """
        self._require_rows("audit")
        if (X is None) != (y is None):
            raise ValueError("audit needs both X and y, or neither")
        if not threshold >= 0:
            raise ValueError(f"threshold must be >= 0, got {threshold}")
        if draws is not None and draws < 1:
            raise ValueError(f"draws must be >= 1, got {draws}")
        effort = Effort(size=Size(splits, targets)) if attack else None
        test = self._remaining_rows() if X is None else self._test_rows(X, y)
        rng = np.random.default_rng(random_state)
        made = compare(self._question(test), threshold=threshold, draws=draws, rng=rng)
        made = replace(made, measured_on="test" if X is not None else "training")
        if effort is None:
            return made
        return made.with_attack(self._attacked(test, effort, rng, progress))

    def _remaining_rows(self) -> Rows:
        return self._data.take(np.flatnonzero(self._data.remaining))

    def _test_rows(self, X: ArrayLike, y: ArrayLike | None) -> Rows:
        X_test = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        labels = np.asarray(y).ravel()
        if len(labels) != X_test.shape[0]:
            raise ValueError(f"X has {X_test.shape[0]} rows but y has {len(labels)}")
        codes = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        codes = np.where(self.classes_[codes] == labels, codes, -1)
        return make_rows(X_test, codes, self._data.intercept, self.loss)

    def _question(self, test: Rows) -> Question:
        method, state = self._fitted, self._state
        if self._releases is not None:  # publishes as RETRAIN does: the centre and plain noise
            method = METHODS["retrain"](replace(method.settings, solver="auto", sigma=self.noise))
            state = State(method.name, state.weights, state.n, kept_centre=state.centre)
        return self._asked(method, state, test)

    def _asked(self, method: Method, state: State, test: Rows) -> Question:
        forgotten = ~self._data.remaining
        gone = self._data.take(np.flatnonzero(forgotten & ~self._data.erased))
        return Question(method, state, self._data, test, gone, int(np.count_nonzero(forgotten)))

    def _attacked(
        self,
        test: Rows,
        effort: Effort,
        rng: np.random.Generator,
        progress: ProgressCallback | None,
    ) -> Attack:
        claim = None
        if self._releases is not None:
            certifier = self._releases.certifier
            claim = Claim(certifier.promise, certifier.release)
        asked = self._asked(self._fitted, self._state, test)
        return attack(
            asked, claim, effort=effort, rng=rng, delta=float(self.delta), progress=progress
        )

    def attack(self, *, draws: int = 10_000) -> ReleaseTest:
        """Try to refute the certificate: can releases be told from those of a retraining?

        Retrains independently, draws so many releases of each, and says what epsilon and mu must be
        at least; a model that never unlearned is the control. The model does not change.
        """
        self._require_rows("attack")
        if self._releases is None:
            raise ValueError("there is no claim to refute: fit with epsilon= to get a certificate")
        if draws < 100:
            raise ValueError(f"draws must be >= 100, got {draws}")
        return self._releases.attack(self._state, self._data, draws)

    def without_data(self) -> Self:
        """A copy that predicts and holds no row: the released weights, the classes, the names.

        It cannot unlearn, prepare or audit: keep the original where rows may be kept. It has no
        random_state either, by which the noise could be drawn again.
        """
        check_is_fitted(self)
        bare: Self = clone(self).set_params(random_state=None)
        learned = ("classes_", "coef_", "intercept_", "n_features_in_", "feature_names_in_")
        for name in learned:
            if hasattr(self, name):
                setattr(bare, name, copy(getattr(self, name)))
        bare._state = State(self._state.method, self._state.weights.copy(), self._state.n)
        return bare

    @property
    def remaining_(self) -> np.ndarray:
        """Mask over the rows of fit: True where the row is still in the model."""
        self._require_rows("remaining_")
        mask = self._data.remaining.view()
        mask.flags.writeable = False
        return mask

    @property
    def n_remaining_(self) -> int:
        """Rows the model stands for now."""
        check_is_fitted(self)
        return self._state.n

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """x.w, (n,) for two classes and (n, k) for more."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        scores = margins(rows, self._state.weights)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        scores = self.decision_function(X)  # first of all says whether the model is fitted
        return np.asarray(self.classes_[predicted_classes(scores)])

    @property
    def _dtype(self) -> type[np.floating]:
        return np.float64 if self.dtype == "float64" else np.float32

    def _activate(self, state: State) -> None:
        self._state = state
        p = self._data.d - self._data.intercept
        self.coef_ = state.weights[:, :p].copy()
        if self._data.intercept:
            self.intercept_ = state.weights[:, p].copy()
        else:
            self.intercept_ = np.zeros(len(state.weights))

    def _request(self, rows: ArrayLike) -> np.ndarray:
        """The request as positions in the order given, which mini-batches follow, or a ValueError
        that names what is wrong with it."""
        deleted = positions(rows, self._labels, self._data.remaining)
        ordered = np.sort(deleted)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(repeated):
            raise ValueError(f"rows {some(np.unique(repeated))} are named more than once")
        gone = ordered[~self._data.remaining[ordered]]
        if len(gone):
            raise ValueError(f"rows {some(gone)} were forgotten already")
        leaving = np.bincount(self._data.codes[deleted], minlength=len(self.classes_))
        if len(deleted) and (leaving >= self._class_counts).any():
            if len(deleted) == self._data.n_remaining:
                raise ValueError(
                    f"the request names all {len(deleted)} remaining rows; drop the model instead"
                )
            emptied = self.classes_[leaving >= self._class_counts]
            raise ValueError(
                f"the request would remove every remaining row of class {some(emptied)}; "
                "keep one, or fit a new model without that class"
            )
        return deleted

    def _holds(self, X: ArrayLike, remaining: np.ndarray) -> bool:
        """Whether these are the rows where the mask is True, to the bit."""
        given: Any = X if issparse(X) else np.asarray(X)
        if given.shape != (np.count_nonzero(remaining), self._data.d - self._data.intercept):
            return False
        return self._data.take(np.flatnonzero(remaining)).holds(given)

    def _relearn(self, X: ArrayLike, remaining: np.ndarray) -> None:
        """Train on rows that were transformed anew; their places are where the mask is True."""
        before = self.__dict__.copy()
        try:
            old = self._data
            matrix = validate_data(
                self, X, accept_sparse="csr", dtype=old.dtype, order="C", ensure_min_samples=2
            )
            rows = make_rows(matrix, old.codes[remaining], old.intercept, old.loss)
            name = old.name if issparse(matrix) == old.takes_sparse else None
            data = make_engine(rows, len(self.classes_), places=remaining, name=name)
            state = self._fitted.train(data, self._rng)
            if self._releases is not None:
                releases = self._releases.of_rows(data)
                self._releases, state, self.certificate_ = releases.publish(
                    None, state, data, NOBODY
                )
            state = self._fitted.prepare(state, data)
            if self._releases is not None:
                self._releases = self._releases.prepared(state, data)
        except BaseException:
            self.__dict__ = before
            raise
        self._data, self._class_counts = data, np.bincount(rows.codes)
        self._activate(state)

    def _require_rows(self, verb: str) -> None:
        check_is_fitted(self)
        if not hasattr(self, "_data"):
            raise ValueError(
                f"{verb} needs the rows of fit, and this copy has none (without_data()); use the "
                "model it was made from, or fit again"
            )
        if verb in ("unlearn", "audit") and self._sign is not None and not self._steps_forget:
            warnings.warn(
                f"the rows of fit look scaled by constants fitted to them ({self._sign}): such "
                "constants remember rows that are forgotten here, and no audit of the classifier "
                "sees it. unfit.Pipeline makes the steps before it forget, too; constants that are "
                "declared, not fitted, need not",
                FittedStepWarning,
                stacklevel=3,
            )

    def __copy__(self) -> Self:
        """A copy of its own: two models never share the mask of what remains."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: of rows and labels those that remain, and no statistics."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_data" in state:
            stream = None if self._state.stream is None else Stream()  # it goes on with new sums
            state["_state"] = replace(
                self._state, statistics=None, stale_inverse=None, spare=None, stream=stream
            )
            if self._releases is not None:
                state["_releases"] = self._releases.to_keep()
            if self._labels is not None:
                state["_labels"] = self._labels.of_rows(self._data.remaining)
        return state

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: whether its method takes sparse rows."""
        tags = super().__sklearn_tags__()
        method = METHODS.get(self.method)
        if method is not None:
            solver = method.solvers[0] if self.solver == "auto" else self.solver
            tags.input_tags.sparse = solver != "sgd"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")


class LogisticRegression(LinearClassifier):
    """Logistic regression that can forget rows it was trained on.

    Minimises  sum_i [ softplus(x_i.w) - t_i x_i.w ] + (l2 n / 2) |w|^2,  one-vs-rest for more than
    two classes; the intercept is regularised like the rest. `unlearn(rows)` then removes rows.

    Parameters
    ----------
    method : "fisher", "influence", "deltagrad", "newton", "retrain", or one that a package adds
        How to unlearn: a Newton step on what remains; the deleted rows' influence; a replay of the
        SGD run; or exact retraining from the current weights.
    l2 : ridge penalty per row, > 0.
    sigma : noise added so that what was forgotten cannot be told from the weights, >= 0.
    deletion_batch_size : FISHER and INFLUENCE take so many deleted rows a step, in the order in
        which `unlearn` was given them; None: all at once.
        Smaller is closer to retraining, and slower.
    period, burn_in : DELTAGRAD computes the first `burn_in` steps, then every `period`-th, exactly.
    solver : "newton", "sgd" or "auto" (Newton for all but DELTAGRAD).
    epochs, batch_size, learning_rate : of SGD; batch_size None means all rows.
    tol : Newton stops at |gradient sum| <= tol n.
    fit_intercept : whether a column of ones is added.
    dtype : "float32" or "float64", the precision of the rows; weights are always float64.
    random_state : seed or Generator for starting weights, row order and noise.
    engine : who holds the rows and computes sums over them: "cpu", or one that a package adds. None
        is that of the environment variable UNFIT_ENGINE, or "cpu".
        Sparse rows go to the engine "sparse".
    options : settings that only one method has, by name, as `steps` and `residual` of "newton".
    epsilon, delta, noise : with epsilon given, every release is certified: it has Gaussian noise of
        this standard deviation on each weight, and cannot be told from a retraining without the
        deleted rows, released in the same way, up to epsilon and delta. `unlearn` goes on until
        that holds, and `certificate_` says what it rests on.

    X can be a scipy.sparse matrix or array; other formats are converted to CSR. Then no array of
    columns times columns is made, whatever the number of columns: steps are solved by products with
    the Hessian, to 1e-9 of the length of the weights. Every method but DELTAGRAD and every solver
    but "sgd" takes sparse rows.

    What is kept
    ------------
    The rows given to `fit` are kept by reference where they already have the right dtype and
    layout: do not change them between `fit` and `unlearn`. Rows that were forgotten stay in this
    process's memory, where `audit` compares on them.

    A pickle or a copy (pickle, joblib, copy.deepcopy) holds the rows that remain, their labels, and
    the weights; no row that was forgotten, and no statistics, which are made again when they are
    needed. Positions keep their meaning. With sigma > 0 it also holds the weights without noise,
    which the next `unlearn` starts from, and a seed lets anybody draw the noise again: keep such a
    file as you keep the rows. `without_data()` gives a copy to hand out.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    n_remaining_ : rows the model stands for now.
    remaining_ : boolean mask of them over the rows of fit.
    certificate_ : what is claimed of the released weights; None without epsilon.
    """

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Class probabilities (n, classes).

        Two classes: calibrated as logistic regression is. More: one-vs-rest, the sigmoids of k
        separate models scaled to sum 1. The class with the largest is the prediction, but as
        probabilities they are not those of a softmax model, and have a larger log-loss: on HAPT,
        12 classes, 0.178 where softmax has 0.143, at the same accuracy.
        """
        scores = self.decision_function(X)
        return class_probabilities(scores[:, None] if scores.ndim == 1 else scores, self.loss)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        return np.asarray(np.log(self.predict_proba(X)))


class RidgeClassifier(LinearClassifier):
    """Ridge regression on labels of -1 and 1, as a classifier that can forget rows.

    Minimises  sum_i (x_i.w - y_i)^2 / 2 + (l2 n / 2) |w|^2,  one-vs-rest for more than two classes.
    The objective is a parabola, so FISHER's one step on the rows that remain is exact: what it
    leaves is what a retraining would find, to rounding. Without an intercept the weights are those
    of sklearn.linear_model.RidgeClassifier(alpha=l2 * n). Parameters, attributes and what is kept
    are those of LogisticRegression.
    """

    loss = SquaredError()


class LinearSVC(LinearClassifier):
    """A linear support vector machine with the squared hinge loss that can forget rows.

    Minimises  sum_i max(0, 1 - y_i x_i.w)^2 + (l2 n / 2) |w|^2,  y_i -1 or 1, one-vs-rest for more
    than two classes. The weights are those of sklearn.svm.LinearSVC(C=1 / (l2 * n)). Parameters,
    attributes and what is kept are those of LogisticRegression.
    """

    loss = SquaredHinge()


def _generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)
