"""The audit of a fitted classifier: an independent retraining, and attacks on the release."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from unfit.audit import Attack, Audit, Claim, Effort, Question, attack, compare
from unfit.certify import ReleaseTest
from unfit.certify.shadow_models import SPLITS, TARGETS, Size
from unfit.core.objective import Rows
from unfit.core.sparse_rows import make_rows
from unfit.estimator.fitted import FittedModel
from unfit.methods import METHODS, Method, State
from unfit.progress import ProgressCallback


class AuditedModel(FittedModel):
    """A fitted model that can be compared with a retraining of its own."""

    delta: float
    noise: float

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
