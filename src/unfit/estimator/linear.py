"""A linear classifier that can forget: `fit` and `unlearn`."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unfit.certify import Promise, Releases, certified_settings
from unfit.core.objective import Rows, all_different
from unfit.core.predictions import margins, predicted_classes
from unfit.core.sparse_rows import check_form, make_rows
from unfit.engines.base import Engine, MakeEngine, make_engine
from unfit.estimator.audited import AuditedModel
from unfit.estimator.collections import cluster_of, labels_of, note_columns
from unfit.estimator.parameters import CONSTRAINTS
from unfit.estimator.training_warnings import warn_of_training
from unfit.estimator.weighting import (
    checked_class_weight,
    checked_sample_weight,
    require_every_class,
    row_weights,
)
from unfit.fitted_steps import sign_of_fitted_step
from unfit.methods import METHODS, OFFERED, Settings
from unfit.methods.base import without_traces
from unfit.progress import ProgressCallback
from unfit.row_files import RowFiles
from unfit.selection import Labels, positions, some

NOBODY = np.zeros(0, np.int64)


class LinearClassifier(AuditedModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """A linear classifier that can forget rows it was trained on: one loss makes one class.

    Minimises  sum_i s_i loss(x_i.w, t_i) + (l2 n / 2) |w|^2,  one-vs-rest for more than two
    classes; s_i are sample weights, and n is their sum. `unlearn(rows)` then removes rows. A
    classifier with another loss is a subclass that names it (`loss = MyLoss()`; see core.losses).
    Parameters, attributes and what is kept are described at LogisticRegression.
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = CONSTRAINTS

    def __init__(
        self,
        method: str = "fisher",
        *,
        l2: float = 1e-4,
        C: float | None = None,
        penalize_intercept: bool = True,
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
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        dtype: str = "float32",
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        engine: str | MakeEngine | None = None,
        options: dict[str, Any] | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        noise: float = 1e-3,
    ) -> None:
        self.method = method
        self.l2 = l2
        self.C = C
        self.penalize_intercept = penalize_intercept
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
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.dtype = dtype
        self.random_state = random_state
        self.engine = engine
        self.options = options
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Train on all rows, and prepare for the first `unlearn`.

        sample_weight: how often each row counts, (n,): 2 is the row twice, 0 is no row at all, and
        fractions are fine; None is 1 for all. progress: called as
        progress("training", epochs_done, epochs) while SGD runs.
        """
        before = self.__dict__.copy()
        try:
            self._fit(X, y, sample_weight, progress)
        except BaseException:
            self.__dict__ = before  # scikit-learn notes the width of X before all else
            raise
        return self

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        progress: ProgressCallback | None,
    ) -> None:
        settings = self._settings()
        method = METHODS.find(self.method)(settings, polished=self.epsilon is not None)
        rows, classes, of_class, files = self._labelled(X, y, sample_weight)
        rng = _generator(self.random_state)
        data = make_engine(rows, len(classes), name=self.engine, task=method.task, files=files)
        method.require(data)
        releases, certificate = None, None
        if self.epsilon is not None:
            promise = Promise(self.epsilon, self.delta, self.noise)
            releases = Releases.open(promise, settings, data)
        start = self._start(data)
        if start is None:
            state = method.train(data, rng, progress)
        else:
            state = method.train(data, rng, progress, start=start)
        training = state.training
        if releases is not None:
            releases, state, certificate = releases.publish(None, state, data, NOBODY)
        state = method.prepare(state, data)
        data.emptied_columns(NOBODY)  # who has a value where is found now, and not by a request
        if releases is not None:
            releases = releases.prepared(state, data)
        warn_of_training(method, data, training, stacklevel=5)
        self.classes_, self.class_weight_ = classes, of_class
        self.n_iter_ = None if training is None else training.iterations
        self._class_counts = _counted(rows, np.arange(len(rows)), len(classes))
        self._data, self._rng, self._fitted = data, rng, method
        self._labels = None if files is not None else Labels.of(X, y)
        self._sign = None if files is not None else sign_of_fitted_step(rows.X)
        self._steps_forget = False
        self._releases, self.certificate_ = releases, certificate
        self._activate(state)

    def _labelled(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Rows, np.ndarray, np.ndarray, RowFiles | None]:
        """The rows as they are trained on, the classes, the weight of each class, and the files of
        rows that are not in memory."""
        matrix, cluster = None, cluster_of(X, self.engine)
        if cluster is not None:
            labels = labels_of(y, cluster)
        else:
            check_form(X)
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
            (only,) = classes.tolist()
            raise ValueError(
                f"y holds one class only ({only!r}); a classifier needs rows of two classes"
            )
        given = checked_sample_weight(sample_weight, len(labels))
        require_every_class(classes, codes, given)
        of_class = checked_class_weight(self.class_weight, classes, codes, given)
        weights = row_weights(given, of_class, codes)
        codes, files = codes.astype(np.int32), None
        if cluster is not None:  # only now: nothing is wrong with y and the weights
            written = cluster.write(X, len(labels), np.dtype(self._dtype))
            files = written.labelled(codes, weights, len(classes))
            note_columns(self, X)
            rows = files.rows(0, files.n, self.fit_intercept, self.loss, in_place=True)
        else:
            rows = make_rows(matrix, codes, self.fit_intercept, self.loss, weights)
        return rows, classes, of_class, files

    def _settings(self) -> Settings:
        if self.C is not None and self.l2 != Settings.l2:
            raise ValueError(
                f"l2={self.l2:g} and C={self.C:g} both say how strong the penalty is: l2 for each "
                "row, C for all of them as scikit-learn does; give one"
            )
        unnamed = [name for name in self.options or {} if not isinstance(name, str)]
        if unnamed:
            raise ValueError(f"options go by their names, as texts; got {unnamed[0]!r}")
        settings = Settings(
            **{name: getattr(self, name) for name in OFFERED},
            options=tuple(sorted((self.options or {}).items())),
        )
        return settings if self.epsilon is None else self._certified(settings)

    def _start(self, data: Engine) -> np.ndarray | None:
        """The weights of the last fit without their noise, if they are asked for and fit."""
        if not self.warm_start or not hasattr(self, "_state"):
            return None
        last = self._state.centre
        return last if last.shape == (data.k, data.d) else None

    def _certified(self, settings: Settings) -> Settings:
        if self.random_state is not None:
            raise ValueError(
                "random_state makes the noise known to whoever knows the seed, and then it hides "
                "nothing: leave it out where epsilon is given"
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "balanced class weights are computed from the rows of fit, deleted ones included, "
                "which no certificate covers: give class_weight as a dict of numbers instead"
            )
        return certified_settings(settings)

    def unlearn(self, rows: ArrayLike) -> Self:
        """Forget rows.

        rows: positions in the X of fit, as an array or list of whole numbers; a mask over the rows
        of fit, matched by label if it is a boolean Series; or, if X (or y) was a data frame, a
        pandas Index of its labels, which names every row that has one of them. A Series of numbers
        could be positions or labels, and is refused.

        FISHER and INFLUENCE take mini-batches of deleted rows in the order given here.

        Unknown, repeated or already forgotten rows, and requests that would empty a class, are
        refused with a ValueError that names them; then nothing has changed. An empty request is a
        no-op. Parameters set after `fit` take effect at the next `fit`.
        """
        self._require_rows("unlearn")
        deleted, leaving = self._request(rows)
        if len(deleted) == 0:
            return self
        if self._data.weight_of(deleted) == 0:
            self._forget_weightless(deleted)
            return self
        before, read = self._state, self._data.rows_read
        state = self._fitted.unlearn(before, self._data, deleted, self._rng)
        if self._releases is not None:
            published = self._releases.publish(before, state, self._data, deleted, read)
            self._releases, state, self.certificate_ = published
        else:
            state = without_traces(state, self._fitted, self._data.emptied_columns(deleted))
        self._data.forget(deleted)
        self._class_counts = self._class_counts - leaving
        self._activate(state)
        return self

    def _forget_weightless(self, deleted: np.ndarray) -> None:
        """Forget rows of weight 0, which the model does not know: neither its weights nor their
        noise changes, and a release with its certificate stands as it is, of fewer rows."""
        m, known, certificate = len(deleted), self._state.statistics, self.certificate_
        known = None if known is None else replace(known, n=known.n - m)
        self._data.forget(deleted)
        self._state = replace(self._state, n=self._state.n - m, statistics=known)
        if self._releases is not None and certificate is not None:
            gone = certificate.deleted + m
            self.certificate_ = replace(certificate, rows=self._state.n, deleted=gone)
            found = self._releases.of_rows(self._data)  # without them, if they were the longest
            self._releases = found.prepared(self._state, self._data)

    def prepare(self) -> Self:
        """Compute ahead what makes the next `unlearn` cheap; the model does not change."""
        self._require_rows("prepare")
        self._state = self._fitted.prepare(self._state, self._data)
        if self._releases is not None:
            self._releases = self._releases.prepared(self._state, self._data)
        return self

    @property
    def engine_(self) -> str:
        """The engine that holds the rows."""
        self._require_rows("engine_")
        return self._data.name

    @property
    def engine_reason_(self) -> str:
        """Why engine="auto" chose it, in a sentence; empty where it was named."""
        self._require_rows("engine_reason_")
        return self._data.reason

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """x.w, (n,) for two classes and (n, k) for more."""
        check_is_fitted(self)
        check_form(X)
        rows = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        scores = margins(rows, self._state.weights)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        scores = self.decision_function(X)  # first of all says whether the model is fitted
        return np.asarray(self.classes_[predicted_classes(scores)])

    def _request(self, rows: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The request as positions in the order given, which mini-batches follow, and how many of
        each class they are; or a ValueError that names what is wrong with it."""
        remaining = self._data.remaining
        deleted = positions(rows, self._labels, remaining)
        if not all_different(deleted, len(remaining)):
            ordered = np.sort(deleted)
            repeated = ordered[1:][ordered[1:] == ordered[:-1]]
            raise ValueError(f"rows {some(np.unique(repeated))} are named more than once")
        still = remaining[deleted]
        if not still.all():
            raise ValueError(f"rows {some(np.sort(deleted[~still]))} were forgotten already")
        leaving = _counted(self._data, deleted, len(self.classes_))
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
        return deleted, leaving

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
            weights = None if old.sample_weight is None else old.sample_weight[remaining]
            rows = make_rows(matrix, old.codes[remaining], old.intercept, old.loss, weights)
            name = old.made_by if issparse(matrix) == old.takes_sparse else None
            data = make_engine(rows, len(self.classes_), places=remaining, name=name)
            state = self._fitted.train(data, self._rng)
            training = state.training
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
        self._data = data
        self._class_counts = _counted(rows, np.arange(len(rows)), len(self.classes_))
        self.n_iter_ = None if training is None else training.iterations
        self._activate(state)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: whether its method takes sparse rows."""
        tags = super().__sklearn_tags__()
        method = METHODS.get(self.method)
        if method is not None:
            solver = method.solvers[0] if self.solver == "auto" else self.solver
            tags.input_tags.sparse = solver != "sgd"
        return tags


def _counted(rows: Rows | Engine, places: np.ndarray, classes: int) -> np.ndarray:
    """How many of the rows at some places count, of each class: those of weight zero do not."""
    if rows.sample_weight is not None:
        places = places[rows.sample_weight[places] > 0]
    return np.bincount(rows.codes[places], minlength=classes)


def _generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)
