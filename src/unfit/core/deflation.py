"""A guide for Hessians of many columns: exact along a few directions, a number across the others.

Rows of one kind of data share a few directions in which all of them are long (their mean is one).
Along these the Hessians H_c = X^T D_c X + ridge I of all problems have their large eigenvalues, and
across them they are near ridge I. With Q (r, d) an orthonormal basis of such directions, Z = X Q^T:

    A_c = Z^T D_c Z + ridge I           H_c on the directions: r x r, without a pass over the rows
    guide = Q^T A_c^-1 Q + (I - Q^T Q) / middle_c

Q depends on the rows alone, not on weights or problems: it is made once, by a few products. On 20
Newsgroups eleven directions make four in ten products unnecessary; the diagonal of the Hessian as
a guide makes them more. Only ever a guide: float32 is enough. Knows core.kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.deflation import add_components, add_inner, combine
from unfit.core.kernels.vectors import by_threads

MOST = 16  # directions
FEWEST = 4  # with less it is not worth while
MORE = 4  # that are looked for besides, and dropped
_ROUNDS = 3
PRODUCTS = _ROUNDS + 1  # with MOST + MORE vectors each, that a basis costs

Gram = Callable[[np.ndarray], np.ndarray]  # V (j, d) -> V X^T X


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal directions (r, d), and the rows' components along them (n, r)."""

    directions: np.ndarray
    components: np.ndarray

    @classmethod
    def of(
        cls, gram: Gram, components: Callable[[np.ndarray], np.ndarray], d: int, r: int
    ) -> "Basis":
        """The r directions in which the rows are longest, about: by subspace iteration.

        components(Q): the rows times some directions, (n, r), in float32.
        """
        Q = np.random.default_rng(0).standard_normal((min(r + MORE, d), d))
        for _ in range(_ROUNDS):
            Q = np.ascontiguousarray(np.linalg.qr(gram(Q).T)[0].T)
        _, vectors = np.linalg.eigh(Q @ gram(Q).T)
        chosen = np.ascontiguousarray(vectors[:, ::-1][:, :r].T @ Q)
        return cls(chosen.astype(np.float32), components(chosen))

    def erase(self, rows: np.ndarray, columns: np.ndarray) -> None:
        """Zero the components of rows, and columns of the directions. A guide stays one: shorter
        directions make it milder, and never less than positive definite."""
        self.components[rows] = 0.0
        self.directions[:, columns] = 0.0

    def guide(self, curvatures: np.ndarray, ridge: float) -> "Deflated":
        """For the Hessians with these curvatures (n, k), plus ridge I."""
        (n, r), k = self.components.shape, curvatures.shape[1]
        parts = by_threads(
            n, k * r * r, (k, r, r), lambda out, s: add_inner(self.components, curvatures, out, s)
        )
        lower = np.tril(parts.sum(axis=0))
        inner = lower + np.tril(lower, -1).swapaxes(1, 2) + ridge * np.eye(r)
        values, vectors = np.linalg.eigh(inner)
        values = np.maximum(values, ridge)
        # across the directions, eigenvalues are between the ridge and about the smallest of these
        middle = np.sqrt(ridge * values[:, 0])
        change = np.einsum("kab,kb,kcb->kac", vectors, 1 / values - 1 / middle[:, None], vectors)
        return Deflated(self.directions, change, 1 / middle)


@dataclass(frozen=True, eq=False)
class Deflated:
    """The guide of every problem: scale v + Q change Q^T v."""

    directions: np.ndarray
    change: np.ndarray
    scales: np.ndarray

    def of(self, problem: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Q, change and scale of one problem."""
        return self.directions, self.change[problem], float(self.scales[problem])

    def __call__(self, problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        Q, (j, d) = self.directions, vectors.shape
        r = len(Q)
        parts = by_threads(d, j * r, (j, r), lambda out, s: add_components(vectors, Q, out, s))
        back = np.einsum("jab,jb->ja", self.change[problems], parts.sum(axis=0))
        scales, out = self.scales[problems], np.empty(vectors.shape)
        by_threads(d, j * r, (), lambda _, s: combine(vectors, scales, back, Q, out, s))
        return out
