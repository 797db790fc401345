"""Plans: one YAML file per figure or table, that says which runs it is drawn from.

A file names its kind (figure, table), title, where it is in the paper, and its runs: lists of
laws, volumes or fractions, methods, taus, sigmas, seeds and policies, all combinations of which
are wanted. `manners`: the published one (-) or unfit's (product), where they differ. `without`:
data sets that a sweep leaves out. `rows` asks for more seeds where few rows are deleted: so many
that all of them delete that many together. What depends on a data set (its volumes, how much a law
can delete) is filled in here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import yaml

from unfit.errors import BadInput
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.deletions import LAWS, count_of
from unfit.experiments.run import NONE, Run
from unfit.experiments.workbench import Workbench

VOLUMES = ("small", "medium", "large")
FIELDS = {
    "retrain": {"laws", "fractions", "volumes", "seeds", "rows"},
    "train": {"methods", "sigmas", "seeds"},
    "unlearn": {
        "laws",
        "fractions",
        "volumes",
        "methods",
        "taus",
        "sigmas",
        "seeds",
        "up_to",
        "manners",
    },
    "timing": {"laws", "volumes", "methods", "taus", "sigmas"},
    "stream": {"laws", "fractions", "methods", "policies", "up_to"},
    "beyond": {"laws", "volumes", "methods", "sigmas", "seeds"},
    "positions": {"laws", "methods", "policies", "seeds", "manners", "without"},
}
EXTRA_POLICIES: list[str] = []  # that streams are run under beside those of their plan
CERTIFIED, NOISE = "certified", 1e-3  # the method and the noise of certified runs
THETA = 0.45  # that fractions `up_to: theta` are written for


@dataclass(frozen=True)
class Effort:
    """How much of a plan is run: at most so many seeds, every `thin`-th fraction and sigma."""

    seeds: int | None = None
    thin: int = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs that a figure or table is made of. number: where it is in the paper."""

    name: str
    kind: str
    title: str
    number: str
    caption: str
    sweeps: tuple[Mapping[str, Any], ...]

    def runs(self, workbench: Workbench, effort: Effort) -> Iterator[Run]:
        """The runs that it wants of one data set."""
        speed_only = workbench.data.entry.speed_only
        for sweep in self.sweeps:
            if not speed_only or sweep["kind"] == "timing":
                for run in _expand(sweep, workbench, effort):
                    if not workbench.sparse or _takes_sparse(run):
                        yield run


def _takes_sparse(run: Run) -> bool:
    """Whether a run is possible with sparse rows: streams and what follows a stored run are not."""
    if run.kind not in ("retrain", "train", "unlearn", "timing"):
        return False
    return run.method == NONE or not CONTENDERS[run.method].method.replays


@cache
def plans() -> dict[str, Plan]:
    """All plans by name, figures first."""
    folder = files("unfit.experiments") / "plans"
    found = [
        read_plan(file.name.removesuffix(".yaml"), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    ]
    found.sort(key=lambda plan: (plan.kind, plan.number or "~", plan.name))
    return {plan.name: plan for plan in found}


def read_plan(name: str, text: str) -> Plan:
    content = yaml.safe_load(text)
    for sweep in content["runs"]:
        kind = sweep.get("kind")
        if kind not in FIELDS:
            raise BadInput(f"{name}.yaml: unknown kind of run {kind!r}; use {', '.join(FIELDS)}")
        wrong = set(sweep) - FIELDS[kind] - {"kind"}
        if wrong:
            raise BadInput(f"{name}.yaml: a run of kind {kind} has no {sorted(wrong)[0]!r}")
    return Plan(
        name=name,
        kind=content["kind"],
        title=content["title"],
        number=content.get("number", ""),
        caption=content.get("caption", ""),
        sweeps=tuple(content["runs"]),
    )


def _expand(sweep: Mapping[str, Any], workbench: Workbench, effort: Effort) -> Iterator[Run]:
    kind, name = sweep["kind"], workbench.name
    seeds = range(_at_most(sweep.get("seeds", 1), effort))
    sigmas = _thinned(sweep.get("sigmas", [0.0]), effort.thin)
    if kind == "train":
        for method, sigma, seed in product(_methods(sweep), sigmas, seeds):
            yield Run(kind, name, method=method, sigma=sigma, seed=seed)
        return
    if kind == "positions":
        if name not in sweep.get("without", ()) and workbench.data.entry.volumes is not None:
            yield from _positions(sweep, name, seeds)
        return
    if kind == "beyond":
        yield from _beyond(sweep, workbench, effort)
        return
    for law in _listed(sweep["laws"], LAWS):
        fractions = _fractions(sweep, workbench, law, effort)
        if kind == "retrain":
            for fraction in fractions:
                for seed in range(_draws(sweep, workbench, fraction, effort)):
                    yield Run(kind, name, law, fraction, seed=seed)
        elif kind == "stream":
            for method, policy in product(_methods(sweep), [*sweep["policies"], *EXTRA_POLICIES]):
                for step, fraction in enumerate(fractions, 1):
                    yield Run(kind, name, law, fraction, method, policy=str(policy), step=step)
        else:
            for fraction, method, sigma, seed in product(fractions, _methods(sweep), sigmas, seeds):
                for tau, manner in product(_taus(sweep, method), sweep.get("manners", [NONE])):
                    yield Run(kind, name, law, fraction, method, tau, sigma, seed, manner=manner)


def _beyond(sweep: Mapping[str, Any], workbench: Workbench, effort: Effort) -> Iterator[Run]:
    """One row, a hundredth, and the volumes; the certified runs have noise of their own."""
    seeds = range(_at_most(sweep.get("seeds", 1), effort))
    for law in sweep["laws"]:
        volumes = _fractions(sweep, workbench, law, effort)
        few = [1 / workbench.data.n, 0.01] if volumes else []
        for fraction, seed in product([*few, *volumes], seeds):
            for method, sigma in product(sweep["methods"], sweep["sigmas"]):
                yield Run("beyond", workbench.name, law, fraction, method, sigma=sigma, seed=seed)
            yield Run("beyond", workbench.name, law, fraction, CERTIFIED, sigma=NOISE, seed=seed)


def _positions(sweep: Mapping[str, Any], name: str, seeds: range) -> Iterator[Run]:
    chosen = product(sweep["laws"], _methods(sweep), seeds, sweep["policies"], sweep["manners"])
    for law, method, seed, policy, manner in chosen:
        yield Run("positions", name, law, method=method, seed=seed, policy=policy, manner=manner)


def _at_most(seeds: int, effort: Effort) -> int:
    return seeds if effort.seeds is None else min(seeds, effort.seeds)


def _draws(sweep: Mapping[str, Any], workbench: Workbench, fraction: float, effort: Effort) -> int:
    """Seeds of a fraction: those the sweep names, more if together they delete too few rows."""
    each = max(1, count_of(fraction, workbench.data.n))
    return _at_most(max(sweep.get("seeds", 1), -(-sweep.get("rows", 0) // each)), effort)


def _fractions(
    sweep: Mapping[str, Any], workbench: Workbench, law: str, effort: Effort
) -> list[float]:
    """No more than the law can delete: what is asked beyond it becomes all there is."""
    entry = workbench.data.entry
    if "volumes" in sweep:
        if entry.volumes is None:
            return []
        chosen = [entry.volumes[VOLUMES.index(volume)] for volume in sweep["volumes"]]
        if max(chosen) >= workbench.most(law):
            raise BadInput(
                f"{entry.name}: a volume of {max(chosen):g} is more than {law} can delete, which "
                f"is less than {workbench.most(law):.3f} of the rows"
            )
        return chosen
    wanted = _thinned(sweep["fractions"], effort.thin)
    if sweep.get("up_to") == "theta" and sweep["kind"] == "unlearn" and entry.rehearsed is not None:
        wanted = list(entry.rehearsed)
    elif sweep.get("up_to") == "theta" and entry.theta < THETA:
        wanted = [round(fraction * entry.theta / THETA, 6) for fraction in wanted]
    most = workbench.most(law)
    return sorted({min(fraction, most) for fraction in wanted})


def _thinned(values: list[float], thin: int) -> list[float]:
    """Every thin-th value, the first and the last always."""
    last = len(values) - 1
    return [float(v) for i, v in enumerate(values) if i in (0, last) or (last - i) % thin == 0]


def _methods(sweep: Mapping[str, Any]) -> list[str]:
    return _listed(sweep["methods"], CONTENDERS)


def _taus(sweep: Mapping[str, Any], method: str) -> list[str]:
    taus = CONTENDERS[method].taus
    if sweep["taus"] == "all":
        return [tau.name for tau in taus]
    named = {"smallest": taus[0].name, "largest": taus[-1].name}
    return [named.get(tau, tau) for tau in sweep["taus"]]


def _listed(wanted: str | list[str], known: Iterable[str]) -> list[str]:
    return list(known) if wanted == "all" else list(wanted)
