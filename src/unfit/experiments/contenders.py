"""The methods that are compared: each with its efficiency parameter tau and its looks.

tau of FISHER and INFLUENCE is the size m' of a mini-batch of deleted rows, m / parts; that of
DELTAGRAD the period T0. A new contender is a Method, and one call of `add_contender`; installed
methods join by their names.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from unfit.data.catalog import Training
from unfit.errors import BadInput
from unfit.methods import METHODS, Method, Settings

# Okabe and Ito's palette: told apart by people who see colours differently, and in grey by shape.
SPARE_COLOURS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
MOST_TAUS = 7  # as many as there are markers to tell them apart


@dataclass(frozen=True)
class Tau:
    """A value of the efficiency parameter: its name in tables, in legends, and what it sets.

    apply(settings, m) gives the settings for a deletion of m rows.
    """

    name: str
    label: str
    apply: Callable[[Settings, int], Settings]


@dataclass(frozen=True)
class Contender:
    """taus: from the slowest and closest to the fastest; the last one is the largest tau."""

    method: type[Method]
    label: str
    taus: tuple[Tau, ...]
    colour: str

    @property
    def name(self) -> str:
        return self.method.name

    def tau(self, name: str) -> Tau:
        return next(tau for tau in self.taus if tau.name == name)

    def build(self, training: Training, sigma: float, tau: Tau, m: int) -> Method:
        """The method as the paper trains it: by SGD, with the data set's parameters."""
        settings = Settings(
            sigma=sigma,
            solver="sgd",
            epochs=training.epochs,
            batch_size=training.batch_size,
            burn_in=training.burn_in,
        )
        return self.method(tau.apply(settings, m))


def parts(count: int) -> Tau:
    """m' = m / count, rounded up: the paper rounds down, which makes one more, tiny, mini-batch."""
    label = "m" if count == 1 else f"m/{count}"

    def apply(settings: Settings, m: int) -> Settings:
        return replace(settings, deletion_batch_size=max(1, -(-m // count)))

    return Tau(label, f"m' = {label}", apply)


def period(steps: int) -> Tau:
    def apply(settings: Settings, m: int) -> Settings:
        return replace(settings, period=steps)

    return Tau(f"T0={steps}", f"T0 = {steps}", apply)


CONTENDERS: dict[str, Contender] = {}


def add_contender(
    method: type[Method], taus: tuple[Tau, ...], label: str | None = None, colour: str | None = None
) -> Contender:
    """Compare a method with the others, in every figure."""
    if not method.name or not all(c.isalnum() or c in "-_" for c in method.name):
        raise BadInput(f"{method.name!r} is no name: letters, digits, - and _ make one")
    if method.name in CONTENDERS or METHODS.get(method.name, method) is not method:
        raise BadInput(f"there is already a method called {method.name!r}")
    if not 1 <= len(taus) <= MOST_TAUS:
        raise BadInput(f"{method.name} needs 1 to {MOST_TAUS} values of tau, not {len(taus)}")
    spare = [c for c in SPARE_COLOURS if c not in {x.colour for x in CONTENDERS.values()}]
    contender = Contender(
        method, label or method.title, taus, colour or (spare or SPARE_COLOURS)[0]
    )
    CONTENDERS[method.name] = contender
    if method.name not in METHODS:
        METHODS.register(method.name, method)
    return contender


def add_installed(name: str) -> Contender:
    """Compare an installed method with the others.

    tau is its mini-batch of deleted rows, where it has one; otherwise there is one value.
    """
    method = METHODS.find(name)
    has_batches = any(knob.name == "deletion_batch_size" for knob in method.knobs())
    return add_contender(method, BATCHES if has_batches else (ONE_TAU,))


ONE_TAU = Tau("default", "as installed", lambda settings, m: settings)
BATCHES = tuple(parts(count) for count in (8, 4, 2, 1))
add_contender(METHODS["fisher"], BATCHES, "FISHER", "#0072B2")
add_contender(METHODS["influence"], BATCHES, "INFLUENCE", "#009E73")
add_contender(
    METHODS["deltagrad"], tuple(period(t) for t in (2, 5, 50, 100)), "DELTAGRAD", "#D55E00"
)
