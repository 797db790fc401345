"""Finished runs, put together: means over seeds, speed-ups, and published values beside ours."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from unfit.data.catalog import Prepared
from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.plans import VOLUMES
from unfit.experiments.run import NONE
from unfit.experiments.significance import floors

CASE = ["dataset", "law", "fraction", "method", "tau", "sigma"]
RETRAINED = ["dataset", "law", "fraction", "method", "sigma"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A data set as figures and tables show it."""

    name: str
    title: str
    n: int
    n_test: int
    d: int
    k: int
    volumes: tuple[float, float, float] | None
    theta: float
    epochs: int
    batch_size: int
    burn_in: int
    intercept: bool
    target: int
    about: str
    speed_only: bool
    sparse: bool = False

    def volume(self, name: str) -> float:
        assert self.volumes is not None
        return self.volumes[VOLUMES.index(name)]


def matching(
    frame: pd.DataFrame, *, fraction: float | None = None, **settings: object
) -> pd.DataFrame:
    """The rows of a table with these settings; fractions are compared up to rounding."""
    mask = np.ones(len(frame), bool)
    for name, value in settings.items():
        mask &= np.asarray(frame[name] == value)
    if fraction is not None:
        mask &= np.isclose(frame["fraction"], fraction)
    return frame[mask]


def subject_of(data: Prepared) -> Subject:
    entry = data.entry
    return Subject(
        name=entry.name,
        title=data.title,
        n=data.n,
        n_test=len(data.y_test),
        d=data.d,
        k=data.k,
        volumes=entry.volumes,
        theta=entry.theta,
        epochs=data.training.epochs,
        batch_size=data.training.batch_size,
        burn_in=data.training.burn_in,
        intercept=entry.intercept,
        target=entry.target,
        about=entry.about,
        speed_only=entry.speed_only,
        sparse=data.sparse,
    )


@dataclass(frozen=True)
class Findings:
    """A tidy table of runs and the data sets they are of."""

    frame: pd.DataFrame
    subjects: tuple[Subject, ...]

    @cached_property
    def real(self) -> tuple[Subject, ...]:
        """Data sets whose accuracies say something."""
        return tuple(s for s in self.subjects if not s.speed_only)

    def of(self, kind: str, **settings: object) -> pd.DataFrame:
        """Runs of a kind with the given settings."""
        found = self.frame[self.frame["kind"] == kind]
        for name, value in settings.items():
            found = found[found[name] == value]
        return found

    @cached_property
    def timings(self) -> pd.DataFrame:
        """Times, and speed-ups against both retrainings."""
        found = self.of("timing").copy()
        if found.empty:
            return found.assign(speed_up=[], speed_up_exact=[])
        found["speed_up"] = found["seconds_retrain_sgd"] / found["seconds_unlearn"]
        found["speed_up_exact"] = found["seconds_retrain_exact"] / found["seconds_unlearn"]
        return found

    @cached_property
    def unlearned(self) -> pd.DataFrame:
        """Means and spreads over seeds of every case, with its speed-up where it was timed.

        With noise, a case has the time measured at sigma 1: how much noise there is does not
        change what is computed.
        """
        found = self.of("unlearn", manner=NONE)
        if found.empty:
            return found
        found = self.with_floors(found)
        grouped = found.groupby(CASE, as_index=False)
        means = grouped.mean(numeric_only=True).drop(columns=["seed", "step"], errors="ignore")
        means["seeds"] = grouped.size()["size"]
        for name in ("acc_err", "acc_dis"):
            means[f"{name}_spread"] = grouped[name].std(ddof=0)[name]
        means["timed"] = np.where(means["sigma"] > 0, 1.0, 0.0)
        times = self.timings.rename(columns={"sigma": "timed"})
        wanted = ["dataset", "law", "fraction", "method", "tau", "timed"]
        if times.empty:
            return means.assign(speed_up=np.nan, speed_up_exact=np.nan)
        measures = [*wanted, "speed_up", "speed_up_exact"]
        return means.drop(columns=["speed_up", "speed_up_exact"], errors="ignore").merge(
            times[measures], on=wanted, how="left"
        )

    def with_floors(self, found: pd.DataFrame) -> pd.DataFrame:
        """Unlearnings with the floor of their disparity, where other seeds deleted the same rows.

        Informed laws do: of random ones, whose seeds delete other rows, nothing is said. A floor
        belongs to the retrained models, which all taus of a case share.
        """
        cases = found[[*RETRAINED, "seed"]].itertuples(index=False, name=None)
        known = [self._floors.get(case, np.nan) for case in cases]
        return found.assign(acc_dis_floor=known, acc_dis_above=found["acc_dis"] - np.array(known))

    @cached_property
    def _floors(self) -> dict[tuple[object, ...], float]:
        """The floor of every retrained case and seed."""
        frame = self.of("unlearn")
        frame = frame[frame["law"].str.endswith("informed")]
        found: dict[tuple[object, ...], float] = {}
        for names, alike in frame.groupby(RETRAINED)[["seed", "acc_deleted_retrained"]]:
            by_seed = alike.drop_duplicates("seed")
            pairs = zip(by_seed["seed"], by_seed["acc_deleted_retrained"], strict=True)
            for seed, value in floors(dict(pairs)).items():
                found[*names, seed] = value
        return found

    def by_seed(self, subject: Subject, measure: str, **settings: object) -> dict[int, float]:
        """A measure of one case of targeted-informed deletions, seed by seed.

        settings: volume, method, tau, sigma, manner. acc_dis_above: AccDis less its floor.
        """
        if subject.volumes is None:
            return {}
        volume = subject.volume(str(settings.pop("volume")))
        wanted = {"manner": NONE} | settings
        found = self.of("unlearn", dataset=subject.name, law="targeted-informed", **wanted)
        found = found[np.isclose(found["fraction"], volume)]
        if found.empty:
            return {}
        values = self.with_floors(found).set_index("seed")[measure].dropna()
        return {int(seed): float(value) for seed, value in values.items()}

    def case(self, subject: Subject, volume: str, sigma: float, method: str) -> pd.DataFrame:
        """A method's points at a volume and a sigma, from the smallest tau to the largest."""
        found = self.unlearned
        if found.empty or subject.volumes is None:
            return found.iloc[:0]
        found = matching(
            found,
            dataset=subject.name,
            law="targeted-informed",
            fraction=subject.volume(volume),
            sigma=sigma,
            method=method,
        )
        order = {tau.name: i for i, tau in enumerate(CONTENDERS[method].taus)}
        return found.sort_values("tau", key=lambda taus: taus.map(order))

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Accuracy of the retrained model by data set, law and fraction; the published beside it.

        Where a law has no more rows, the authors' figures go on with what is left of none: these
        are compared with the deletion of all there is.
        """
        found = self.of("retrain")
        if found.empty:
            return found
        measures = ["acc_test_retrained", "acc_deleted_retrained"]
        grouped = found.groupby(["dataset", "law", "fraction"], as_index=False)
        means = grouped[measures].mean()
        for name in measures:
            means[f"{name}_low"] = grouped[name].min()[name]
            means[f"{name}_high"] = grouped[name].max()[name]
        return means

    @cached_property
    def beside_curves(self) -> pd.DataFrame:
        """Every published point of the curves, ours, and the differences."""
        ours = self.curves
        rows = []
        for point in published.curves().itertuples():
            here = ours[(ours["dataset"] == point.dataset) & (ours["law"] == point.law)]
            if here.empty:
                continue
            exact = here[np.isclose(here["fraction"], min(point.fraction, here["fraction"].max()))]
            for one in exact.itertuples():
                rows.append(
                    {
                        "dataset": point.dataset,
                        "law": point.law,
                        "fraction": point.fraction,
                        "test_published": point.acc_test_retrained,
                        "test_ours": one.acc_test_retrained,
                        "deleted_published": point.acc_deleted_retrained,
                        "deleted_ours": one.acc_deleted_retrained,
                    }
                )
        return _with_differences(pd.DataFrame(rows))

    @cached_property
    def beside_accuracy(self) -> pd.DataFrame:
        """Every published accuracy of FISHER and INFLUENCE, ours, and the differences."""
        ours, rows = self.unlearned, []
        if ours.empty:
            return pd.DataFrame()
        noiseless = self._retrained_without_noise()
        for point in published.accuracy().itertuples():
            here = matching(
                ours,
                dataset=point.dataset,
                law="targeted-informed",
                method=point.method,
                tau=point.tau,
                sigma=point.sigma,
                fraction=point.fraction,
            )
            for one in here.itertuples():
                # The published retrained models are without noise, whatever their sigma.
                plain = noiseless.get((one.dataset, one.fraction), one.acc_deleted_retrained)
                deleted = {"unlearned": one.acc_deleted_unlearned, "retrained": plain}
                for what in ("unlearned", "retrained"):
                    rows.append(
                        {
                            "dataset": point.dataset,
                            "method": point.method,
                            "tau": point.tau,
                            "fraction": point.fraction,
                            "sigma": point.sigma,
                            "model": what,
                            "test_published": getattr(point, f"acc_test_{what}"),
                            "test_ours": getattr(one, f"acc_test_{what}"),
                            "deleted_published": getattr(point, f"acc_deleted_{what}"),
                            "deleted_ours": deleted[what],
                        }
                    )
        return _with_differences(pd.DataFrame(rows))

    def _retrained_without_noise(self) -> dict[tuple[str, float], float]:
        """Accuracy on the deleted rows of targeted-informed deletions, retrained at sigma 0."""
        found = self.of("unlearn", law="targeted-informed", sigma=0.0, manner=NONE)
        means = found.groupby(["dataset", "fraction"])["acc_deleted_retrained"].mean()
        return {(str(name), float(fraction)): float(v) for (name, fraction), v in means.items()}


def _with_differences(frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty:
        return frame
    for part in ("test", "deleted"):
        frame[f"{part}_difference"] = frame[f"{part}_ours"] - frame[f"{part}_published"]
    return frame
