"""The releases of one model, each with fresh noise and a certificate."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from unfit.certify.accountant import epsilon_of, joint_mu, mu_of
from unfit.certify.certifier import TOLERANCE, Certifier, Promise
from unfit.certify.lengths import RowLengths, Spread
from unfit.certify.polishing import Kind, Polished
from unfit.certify.release_test import DRAWS, Centres, ReleaseTest, release_test
from unfit.engines.base import Engine
from unfit.methods.base import Settings, State
from unfit.methods.retrain import Retrain


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is claimed of the released weights, and what it rests on.

    For the owner: distance, bound, steps and rows_read depend on the data, like the weights before
    noise. mu: of this release; joint_mu: of all releases since the first deletion, for who has seen
    them all, with joint_epsilon at the same delta.
    """

    epsilon: float
    delta: float
    mu: float
    noise: float
    l2: float
    tol: float
    rows: int  # that remain
    deleted: int  # since training
    problems: int
    columns: int
    distance: float  # of the centre from the optimum, at most
    bound: Kind
    steps: int  # of polishing, beyond what the method did
    rows_read: int  # to unlearn, to polish and to bound
    releases: int  # since the first deletion
    joint_mu: float

    @cached_property
    def joint_epsilon(self) -> float:
        """Of all releases together, at the same delta."""
        return epsilon_of(self.joint_mu, self.delta)

    def __str__(self) -> str:
        return "\n".join(f"{name:<16}{value}" for name, value in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """Names and what they came to."""
        read = self.rows_read / max(1, self.rows)
        were = "was" if self.deleted == 1 else "were"
        return [
            ("claim", f"({self.epsilon:g}, {self.delta:g})-indistinguishable from a retraining"),
            ("mu", f"{self.mu:.3g} of at most {mu_of(self.epsilon, self.delta):.3g}"),
            ("noise", f"{self.noise:g} on each of {self.problems * self.columns:,} weights"),
            ("rows", f"{self.rows:,} remain, {self.deleted:,} {were} deleted"),
            ("distance", f"{self.distance:.2e} from the optimum at most (bound: {self.bound})"),
            ("work", f"{self.steps} steps of polishing; the rows were read {read:.1f} times"),
            (
                "all releases",
                f"{self.releases:,}: mu {self.joint_mu:.3g}, epsilon {self.joint_epsilon:.3g}",
            ),
            ("not claimed", "releases from before the deletion; copies elsewhere"),
        ]


@dataclass(frozen=True)
class Ready:
    """Weights that may be released. state: at the centre; releases: with the lengths of the rows
    that remain."""

    releases: "Releases"
    after: State  # of the method, before it was polished
    polished: Polished

    @cached_property
    def state(self) -> State:
        return self._at(self.polished.centre, None)

    def _at(self, weights: np.ndarray, centre: np.ndarray | None) -> State:
        """What is known of the state that the method left still holds where it was not moved."""
        statistics, guide = self.after.statistics, self.after.running_guide
        if self.polished.steps:
            statistics, guide = None, guide and guide.unseen()
        return self.after.at(
            weights, centre, statistics=statistics, running_guide=guide, stream=None
        )

    @property
    def mu(self) -> float:
        return self.releases.certifier.mu_at(self.polished.distance)

    @property
    def ball(self) -> tuple[np.ndarray, float]:
        """A centre and a radius around it, within which a retraining ends. The radius is the one
        that was asked for and depends on no row; the distance that was found is private."""
        return self.polished.centre, self.releases.certifier.promise.reach

    def released(self) -> State:
        """The state that publishes the centre, with fresh noise."""
        centre = self.polished.centre
        return self._at(self.releases.certifier.release(centre), centre)


@dataclass(frozen=True)
class Releases:
    """lengths: of the rows that remain. earlier: the mu of every release since the first deletion.
    spread: of the rows when sums were last prepared; None once rows have left since. C: where the
    penalty is constant, and so l2, its part for each row, grows as rows leave."""

    certifier: Certifier
    lengths: RowLengths
    earlier: tuple[float, ...] = ()
    spread: Spread | None = field(default=None, compare=False, repr=False)
    C: float | None = None

    @classmethod
    def open(cls, promise: Promise, settings: Settings, data: Engine) -> "Releases":
        """Of a model of these rows; the lengths of all of them are looked at."""
        data.precise = True
        found = RowLengths.of(data)
        l2 = Retrain(settings.without_options()).penalty(data).per_row_of(data.total_weight())
        made = Certifier(promise=promise, l2=l2, radius=found.radius, tol=settings.tol)
        return cls(made, found, C=settings.C)

    def of_rows(self, data: Engine) -> "Releases":
        """The same of rows that were transformed anew."""
        data.precise = True
        found = RowLengths.of(data)
        certifier = self._certifier_of(found, data.total_weight())
        return Releases(certifier, found, self.earlier, C=self.C)

    def prepared(self, state: State, data: Engine) -> "Releases":
        """With what makes the next certificate cheap, where the state keeps sums to go with it."""
        if state.statistics is None or self.spread is not None or not data.loss.self_concordant:
            return self
        return replace(self, spread=Spread.of(data))

    def to_keep(self) -> "Releases":
        """Without what is measured again when it is needed, as sums are."""
        return replace(self, spread=None)

    def _certifier_of(self, lengths: RowLengths, total_weight: float) -> Certifier:
        found = self.certifier
        if lengths.step != self.lengths.step:
            found = replace(found, radius=lengths.radius)
        return found if self.C is None else replace(found, l2=1 / (self.C * total_weight))

    def polish(
        self, before: State | None, after: State, data: Engine, leaving: np.ndarray
    ) -> "Ready":
        """Everything of a release but its noise; the arguments are those of `publish`."""
        rows = data.take(leaving)
        lengths = self.lengths.without(rows)
        if lengths is None:
            lengths = RowLengths.of(data, data.without(leaving))
        certifier = self._certifier_of(lengths, data.weight_without(leaving))
        polished = certifier.polish(
            before, after, data, leaving, self.spread, rows=rows, longest=self.certifier.radius
        )
        return Ready(Releases(certifier, lengths, self.earlier, C=self.C), after, polished)

    def publish(
        self, before: State | None, after: State, data: Engine, leaving: np.ndarray, read: int = 0
    ) -> "tuple[Releases, State, Certificate]":
        """Polish, release with fresh noise, and say what can be claimed.

        before: the state that unlearning started from; None after a training. leaving: rows that
        `data` still counts. read: data.rows_read when the request came.
        """
        ready = self.polish(before, after, data, leaving)
        polished, state = ready.polished, ready.released()
        now = ready.releases
        certificate = now._certificate(polished, state, data, data.rows_read - read)
        earlier = (*self.earlier, certificate.mu) if certificate.deleted else ()
        return Releases(now.certifier, now.lengths, earlier, C=now.C), state, certificate

    def attack(self, state: State, data: Engine, draws: int = DRAWS) -> ReleaseTest:
        """Try to tell the releases of this state from those of a retraining from nothing.

        The control is trained with the deleted rows; there is none where they are not at hand.
        """
        promise, certifier = self.certifier.promise, self.certifier
        exact = Retrain(Settings(l2=certifier.l2, C=self.C, tol=1e-13))
        rng, everybody = np.random.default_rng(), ~data.erased
        retrained = exact.optimum(data, rng)
        control = None
        if np.count_nonzero(everybody) > data.n_remaining:
            control = exact.optimum(data, rng, mask=everybody)
        return release_test(
            certifier.release,
            Centres(state.centre, retrained, control),
            epsilon=promise.epsilon,
            delta=promise.delta,
            draws=draws,
        )

    def _certificate(
        self, polished: Polished, state: State, data: Engine, rows_read: int
    ) -> Certificate:
        promise, deleted = self.certifier.promise, len(data) - state.n
        mu = self.certifier.mu_at(polished.distance)
        every = (*self.earlier, mu) if deleted else (mu,)
        return Certificate(
            epsilon=promise.epsilon,
            delta=promise.delta,
            mu=mu,
            noise=promise.noise,
            l2=self.certifier.l2,
            tol=self.certifier.tol,
            rows=state.n,
            deleted=deleted,
            problems=data.k,
            columns=data.d,
            distance=polished.distance,
            bound=polished.bound,
            steps=polished.steps,
            rows_read=rows_read,
            releases=len(every),
            joint_mu=joint_mu(every),
        )


def certified_settings(settings: Settings) -> Settings:
    """Those of the method under a certificate: training that stops close enough.

    The method adds no noise of its own, because a certificate covers one kind.
    """
    if settings.sigma > 0:
        raise ValueError(
            "sigma is the paper's noise, and a certificate has its own: leave sigma at 0 and say "
            "how much with noise="
        )
    if not settings.penalize_intercept:
        raise ValueError(
            "an intercept that is not penalised can move without bound, so how far the weights are "
            "from the optimum cannot be certified: leave penalize_intercept at True where epsilon "
            "is given"
        )
    return replace(settings, tol=min(settings.tol, TOLERANCE))
