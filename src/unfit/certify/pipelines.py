"""What shadow models attack: how models are trained, unlearned, retrained and released.

A pipeline takes any rows, so that the way a model went can be gone again with others. Releases are
(count, k, d): several of one model where noise is added to its centre by a function that is handed
in, one where the method itself releases. May know methods, engines and releases.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from unfit.certify.release_test import Release
from unfit.certify.releases import Releases
from unfit.engines.base import Engine
from unfit.methods.base import Method, State
from unfit.methods.influence import Influence

NOBODY = np.zeros(0, np.int64)
COUNT = 16  # releases of one model


class Pipeline(ABC):
    """How models are made of some rows, and what is released of them."""

    method: Method

    @property
    @abstractmethod
    def knows_rows(self) -> bool:
        """Whether an attacker who knows all other rows is worth trying. Without noise such a one
        tells any difference, and then the attacker does not know them."""

    @abstractmethod
    def train(self, data: Engine, near: np.ndarray, rng: np.random.Generator) -> State:
        """A model of the remaining rows, ready to unlearn. near: weights to start from."""

    @abstractmethod
    def released(self, state: State) -> np.ndarray:
        """Releases of a trained model."""

    @abstractmethod
    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Releases of the model after it unlearned rows that `data` still counts."""

    @abstractmethod
    def retrained(self, optimum: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        """Releases of a model trained on the remaining rows. optimum: theirs."""


def ends_at_optimum(method: Method) -> bool:
    """Whether training leads to the optimum of the rows, whatever it starts from."""
    if method.solver != "newton":
        return False
    if isinstance(method, Influence):
        return method.settings.sigma == 0  # its noise is part of what is minimised
    return type(method).train is Method.train


def _trained(
    method: Method, data: Engine, near: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    return method.optimum(data, rng, start=near) if ends_at_optimum(method) else None


@dataclass(frozen=True)
class CertifiedPipeline(Pipeline):
    """A method under a certificate. release: how its centres are published."""

    method: Method
    releases: Releases
    release: Release

    @property
    def knows_rows(self) -> bool:
        return True

    def train(self, data: Engine, near: np.ndarray, rng: np.random.Generator) -> State:
        centre = _trained(self.method, data, near, rng)
        if centre is None:
            state = self.method.train(data, rng)
        else:
            state = State(self.method.name, centre, data.n_remaining)
        _, state, _ = self.releases.publish(None, state, data, NOBODY)
        return self.method.prepare(state, data)

    def released(self, state: State) -> np.ndarray:
        return self.release(state.centre, COUNT)

    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        after = self.method.unlearn(state, data, leaving, rng)
        _, published, _ = self.releases.publish(state, after, data, leaving)
        return self.release(published.centre, COUNT)

    def retrained(self, optimum: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        return self.release(optimum, COUNT)


@dataclass(frozen=True)
class MethodPipeline(Pipeline):
    """A method as it is, with the noise of its own sigma."""

    method: Method

    @property
    def knows_rows(self) -> bool:
        return self.method.settings.sigma > 0 or self.method.solver == "sgd"

    def train(self, data: Engine, near: np.ndarray, rng: np.random.Generator) -> State:
        centre = _trained(self.method, data, near, rng)
        if centre is None:
            state = self.method.train(data, rng)
        else:
            state = self.method.release(centre, data, rng)
        return self.method.prepare(state, data)

    def released(self, state: State) -> np.ndarray:
        return state.weights[None]

    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return self.method.unlearn(state, data, leaving, rng).weights[None]

    def retrained(self, optimum: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        if ends_at_optimum(self.method):
            return self.method.released(optimum, data, rng)[None]
        return self.method.train(data, rng).weights[None]
