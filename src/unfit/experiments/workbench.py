"""Everything the runs of one data set share: rows, deletions, and trained models.

A model is trained once and kept on disk under its name, where later runs and other processes find
it. Initial and retrained models of one seed differ in their order of rows and in their noise.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.core.losses import LOGISTIC, LOSSES, Loss
from unfit.core.metrics import accuracy
from unfit.core.objective import Rows
from unfit.core.predictions import predict
from unfit.core.sparse_rows import sparse_rows
from unfit.data.catalog import Prepared
from unfit.data.catalog.sparse_arrays import norms as sparse_norms
from unfit.engines.base import Engine, make_engine
from unfit.experiments.contenders import Contender
from unfit.experiments.deletions import count_of, first, order_of
from unfit.experiments.randomness import generator
from unfit.experiments.run import NONE
from unfit.methods import METHODS, Method, Settings, State

NARROW = 1024  # columns below which sparse rows are faster as dense ones
CONVERGED = 1e-8  # of a training by Newton's method: the gradient sum a row


def rows_of(data: Prepared, loss: Loss) -> Rows:
    """The training rows of a data set."""
    codes, intercept = np.asarray(data.y), data.entry.intercept
    if isinstance(data.X, np.ndarray):
        return Rows(data.X, codes, intercept, loss)
    return sparse_rows(data.X, Rows(np.zeros((0, 0)), codes, intercept, loss))


@dataclass(frozen=True)
class Deletion:
    """Rows that a law deletes at a seed."""

    law: str
    fraction: float
    seed: int
    rows: np.ndarray


class Workbench:
    """One data set, ready to train and unlearn on."""

    def __init__(self, data: Prepared, models: Path, loss: str = "logistic") -> None:
        data = data.dense() if data.d < NARROW else data  # few columns are faster dense
        self.data, self.name = data, data.entry.name
        self._models = models
        self._noisy: dict[tuple[object, ...], np.ndarray] = {}  # the last one, for its several taus
        self._orders: dict[tuple[str, int], np.ndarray] = {}
        self.loss = LOSSES.find(loss)()
        self.engine = make_engine(rows_of(data, self.loss), data.k)
        self._test_codes = np.asarray(data.y_test)

    @cached_property
    def provenance(self) -> str:
        """What models depend on besides the settings of a run: the data set and its training.

        It is part of the names of kept models, so its text must not change between versions.
        """
        entry = self.data.entry
        some = self.data.X[:: max(1, self.data.n // 64)]
        rows = np.ascontiguousarray(some if isinstance(some, np.ndarray) else some.data)
        parts = (
            entry.name,
            entry.version,
            self.data.X.shape,
            entry.intercept,
            self.data.training,
            entry.target,
            entry.theta,
            hashlib.sha256(rows.data).hexdigest()[:16],
            *([] if self.loss == LOGISTIC else [self.loss.name]),
        )
        return "/".join(map(str, parts))

    @cached_property
    def norms(self) -> np.ndarray:
        X = self.data.X
        if not isinstance(X, np.ndarray):
            return sparse_norms(X)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)))

    def deletion(self, law: str, fraction: float, seed: int) -> Deletion:
        rows = first(self._order(law, seed), count_of(fraction, len(self.data.y)), law)
        return Deletion(law, fraction, seed, rows)

    def most(self, law: str) -> float:
        """The largest fraction that a law can delete."""
        return len(self._order(law, 0)) / len(self.data.y)

    def _order(self, law: str, seed: int) -> np.ndarray:
        if (law, seed) not in self._orders:
            rng = generator("deletion", self.name, law, seed)
            self._orders[law, seed] = order_of(
                law, self.engine.codes, self.norms, self.data.entry.target, rng
            )
        return self._orders[law, seed]

    def without(self, deletion: Deletion) -> Engine:
        engine = self.engine.shared()
        engine.forget(deletion.rows)
        return engine

    def accuracy(self, weights: np.ndarray) -> float:
        """On the test rows."""
        return accuracy(predict(self.data.X_test, weights), self._test_codes)

    def accuracy_deleted(self, weights: np.ndarray, deletion: Deletion) -> float:
        rows = self.engine.take(deletion.rows)
        return accuracy(predict(rows.X, weights), rows.codes)

    @property
    def sparse(self) -> bool:
        """Whether rows are sparse: SGD cannot walk through them, so models are trained by Newton's
        method to convergence instead, and DELTAGRAD is not among the methods."""
        return self.data.sparse

    def sgd(self) -> Method:
        """The paper's training, without noise; of sparse rows, training from nothing."""
        if self.sparse:
            return METHODS["retrain"](Settings(solver="newton", tol=CONVERGED))
        training = self.data.training
        return METHODS["retrain"](
            Settings(solver="sgd", epochs=training.epochs, batch_size=training.batch_size)
        )

    def initial(self, seed: int) -> np.ndarray:
        """Trained on all rows by SGD, without noise."""
        rng = self.initial_randomness(seed)
        return self._kept(("initial", seed), lambda: self.sgd().optimum(self.engine, rng))

    def optimum(self, deletion: Deletion | None = None) -> np.ndarray:
        """Of all rows, or of what a deletion leaves, by Newton's method to 1e-11 a row."""
        newton = METHODS["retrain"](Settings(solver="newton", tol=1e-11))
        rng = generator("optimum")
        if deletion is None:
            return self._kept(("optimum",), lambda: newton.optimum(self.engine, rng))
        names = ("optimum", deletion.law, deletion.fraction, deletion.seed)
        return self._kept(names, lambda: newton.optimum(self.without(deletion), rng))

    def initial_randomness(self, seed: int) -> np.random.Generator:
        return generator("initial", self.name, seed)

    def retrained(self, deletion: Deletion) -> np.ndarray:
        """Trained by SGD on what a deletion leaves, without noise."""
        names = ("retrained", deletion.law, deletion.fraction, deletion.seed)
        rng = generator(self.name, *names)
        return self._kept(names, lambda: self.sgd().optimum(self.without(deletion), rng))

    def trained_by(self, contender: Contender, sigma: float, seed: int) -> State:
        """The initial model of a method, with its noise.

        A method that trains as all do starts from the shared optimum; one that keeps more than
        weights, or is noisy while it trains, has to train itself.
        """
        method = self.method(contender, sigma)
        if type(method).train is Method.train:
            rng = generator("noise", self.name, contender.name, sigma, seed)
            return method.release(self.initial(seed), self.engine, rng)
        rng = self.initial_randomness(seed)
        if sigma > 0:
            rng = generator("train", self.name, contender.name, sigma, seed)
        return method.train(self.engine, rng)

    def retrained_by(self, contender: Contender, sigma: float, deletion: Deletion) -> np.ndarray:
        """The weights that the method releases after training on what a deletion leaves."""
        if sigma == 0:
            return self.retrained(deletion)
        method = self.method(contender, sigma)
        names = ("retrained", contender.name, sigma, deletion.law, deletion.fraction, deletion.seed)
        rng = generator(self.name, *names)
        if method.noise == "objective":
            return self._kept(names, lambda: method.train(self.without(deletion), rng).weights)
        if names not in self._noisy:
            self._noisy.clear()
            without = self.without(deletion)
            self._noisy[names] = method.released(self.retrained(deletion), without, rng)
        return self._noisy[names]

    def method(
        self,
        contender: Contender,
        sigma: float,
        tau: str = "",
        m: int | None = None,
        manner: str = NONE,
    ) -> Method:
        """The method for a deletion of m rows; by default at its largest tau, for any deletion.

        Noise enters as in the published runs, unless the manner is `product`.
        """
        chosen = contender.tau(tau) if tau else contender.taus[-1]
        built = contender.build(self.data.training, sigma, chosen, m or self.data.n)
        settings = replace(built.settings, noise_per_batch=manner != "product")
        if self.sparse:
            settings = replace(settings, solver="newton", tol=CONVERGED)
        return type(built)(settings)

    def _kept(self, names: tuple[object, ...], train: Callable[[], np.ndarray]) -> np.ndarray:
        key = "/".join((self.provenance, *map(str, names)))
        path = self._models / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npy"
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError):
            weights = train()
        self._models.mkdir(parents=True, exist_ok=True)
        with disk.replacing(path) as file:
            np.save(file, weights)
        return weights
