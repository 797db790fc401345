"""Breaks the code in one place at a time, and sees the tests fail.

    python tools/mutants.py [NUMBER...]

Each mutant is a mistake that would go unnoticed by most people: the promise it breaks is named
beside it. The tests of the quick tier named with it run in a copy of the tree, in which they pass
before; a mutant that they let pass is an error, and of the others it says which test noticed.
Compiled kernels are as they were, but for the file that was changed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]
COPIED = ("src", "tests", "docs", "benchmarks", "examples", "tools", "pyproject.toml", "README.md")
QUICK = "not slow and not alone"  # as in `make test`


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A mistake: in `file`, `right` becomes `wrong`. tests: paths that must notice."""

    breaks: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        breaks="a step starts from the centre: from the released weights it takes the noise away",
        file="methods/onestep.py",
        right="at = state.at(state.centre, None)",
        wrong="at = state.at(state.weights, None)",
        tests=("tests/contract/test_methods.py",),
    ),
    Mutant(
        breaks="the regulariser counts the rows that remain",
        file="methods/onestep.py",
        right="ridge = self.ridge(data, mask)",
        wrong="ridge = self.ridge(data)",
        tests=("tests/methods/test_few_rows.py",),
    ),
    Mutant(
        breaks="a constant penalty stays when rows leave",
        file="core/statistics.py",
        right="with_ridge(self.hessian_sum + sign * other.hessian_sum, -sign * constant),",
        wrong="self.hessian_sum + sign * other.hessian_sum,",
        tests=("tests/core/test_penalty.py",),
    ),
    Mutant(
        breaks="the penalty per row counts sample weights",
        file="engines/base.py",
        right="return float(self.sample_weight[self.remaining if mask is None else mask].sum())",
        wrong="return float(self.n_remaining if mask is None else np.count_nonzero(mask))",
        tests=("tests/test_weights.py",),
    ),
    Mutant(
        breaks="balanced weights are frozen at fit, and forgetting changes nothing else",
        file="estimator/linear.py",
        right="weights = None if old.sample_weight is None else old.sample_weight[remaining]",
        wrong="weights = None",
        tests=("tests/test_weights.py",),
    ),
    Mutant(
        breaks="a pickle holds the remaining rows alone",
        file="engines/cpu.py",
        right="return rows if self.remaining.all() else rows.take(self.remaining)",
        wrong="return rows",
        tests=("tests/test_keeping.py",),
    ),
    Mutant(
        breaks="a position in a shared list never covers lines that another workspace added",
        file="workspace/deletion_list.py",
        right="        if found is Relation.LONGER:\n            return known\n",
        wrong="",
        tests=("tests/workspace/test_shared_list.py", "tests/workspace/test_deletion_list.py"),
    ),
    Mutant(
        breaks="ids are zeroed with the rows",
        file="workspace/purge.py",
        right="    dataset.purge_ids(positions)\n",
        wrong="",
        tests=("tests/workspace/test_purge.py",),
    ),
    Mutant(
        breaks="two workers cannot both put a version in force",
        file="store/commit.py",
        right="if self._versions.active_id(connection) != (started_from and started_from.id):",
        wrong="if False:",
        tests=("tests/store/test_store.py",),
    ),
    Mutant(
        breaks="the database's free pages hold no ids after a purge",
        file="workspace/purge.py",
        right="store.purges.vacuum(removed.texts if session.knows_all_removed(removed) else None)",
        wrong="pass",
        tests=("tests/workspace/test_purge.py",),
    ),
    Mutant(
        breaks="a verdict can fail: a model that never unlearned is found out",
        file="audit/verdict.py",
        right="if left > LIMIT:",
        wrong="if left > 2:",
        tests=("tests/audit/test_verdict.py",),
    ),
    Mutant(
        breaks="constants are those of the rows that remain, at every moment",
        file="workspace/constants.py",
        right="total = kept - sums_at(self.dataset, leaving, encoding)",
        wrong="total = kept",
        tests=("tests/workspace/test_due_constants.py",),
    ),
    Mutant(
        breaks="a revoked token opens nothing",
        file="store/tokens.py",
        right="return None if row.revoked_at is not None else Token.from_row(row)",
        wrong="return Token.from_row(row)",
        tests=("tests/store/test_tokens.py",),
    ),
    Mutant(
        breaks="a certified release has the promised noise",
        file="certify/certifier.py",
        right="self.promise.noise * secret_normal(",
        wrong="self.promise.noise / 2 * secret_normal(",
        tests=("tests/certify/test_certified_estimator.py",),
    ),
    Mutant(
        breaks="mu counts what the reference itself may be off by",
        file="certify/certifier.py",
        right="return (distance + self.tol / self.l2) / self.promise.noise",
        wrong="return distance / self.promise.noise",
        tests=("tests/certify/test_certified_estimator.py",),
    ),
    Mutant(
        breaks="a bound covers every class",
        file="certify/bounds.py",
        right="return math.hypot(*each)",
        wrong="return math.hypot(*each[:1])",
        tests=("tests/certify/test_bounds.py",),
    ),
    Mutant(
        breaks="the residual of a certificate is float64's",
        file="core/objective.py",
        right="gradient[: k * d].reshape(k, d)",
        wrong="gradient.astype(np.float32)[: k * d].astype(np.float64).reshape(k, d)",
        tests=("tests/certify/test_bounds.py",),
    ),
    Mutant(
        breaks="a step without a pass counts what the curvature changed on the way",
        file="certify/bounds.py",
        right="math.exp(t / 2) * _beyond_linear(t) * along",
        wrong="0.0 * along",
        tests=("tests/certify/test_bounds.py",),
    ),
    Mutant(
        breaks="a later step counts all that margins have moved since the sums were made",
        file="certify/bounds.py",
        right="moved = [sum(pair) for pair in zip(walk.before, walk.step, strict=True)]",
        wrong="moved = [0.0 for _ in walk.step]",
        tests=("tests/certify/test_bounds.py",),
    ),
    Mutant(
        breaks="sums from before are taken without the rows that leave",
        file="certify/known.py",
        right="gradient = known.gradient_sum - leaving.gradient()",
        wrong="gradient = known.gradient_sum",
        tests=("tests/certify/test_certified_estimator.py",),
    ),
    Mutant(
        breaks="the reach of a step covers the middle of the rows as well",
        file="certify/lengths.py",
        right="return [abs(float(self.middle @ dw)) + most * math.sqrt(dw @ dw) for dw in step]",
        wrong="return [most * math.sqrt(dw @ dw) for dw in step]",
        tests=("tests/certify/test_bounds.py",),
    ),
    Mutant(
        breaks="what is left of a deletion by FISHER's shape counts both mean and covariance",
        file="certify/paper_noise.py",
        right="best = min(best, eps1 + _mean_epsilon(mu, eps1, math.exp(-float(x)), delta))",
        wrong="best = min(best, eps1)",
        tests=("tests/certify/test_paper_noise.py",),
    ),
    Mutant(
        breaks="polishing goes down",
        file="certify/polishing.py",
        right="step = -_solved(solvers, gradient)",
        wrong="step = _solved(solvers, gradient)",
        tests=("tests/certify/test_certifier.py",),
    ),
    Mutant(
        breaks="what an attack shows is a bound of the rates, not the rates",
        file="certify/rates.py",
        right="lowest(caught, n, mistakes), highest(n - caught, n, mistakes)",
        wrong="caught / n, (n - caught) / n",
        tests=("tests/certify/test_release_test.py",),
    ),
    Mutant(
        breaks="an attacker is not counted on what taught it",
        file="certify/shadow_scores.py",
        right="test = ours[~odd_ours].reshape(-1, k), theirs[~odd_theirs].reshape(-1, k)",
        wrong="test = fit",
        tests=("tests/certify/test_rates.py",),
    ),
    Mutant(
        breaks="an attack that would not find a model that never unlearned has no verdict",
        file="certify/attack_result.py",
        right="if self.control is None or not self._beyond(self.control):\n"
        '            return "cannot tell"',
        wrong='if False:\n            return "cannot tell"',
        tests=("tests/certify/test_shadow_models.py",),
    ),
    Mutant(
        breaks="shadow models are compared with a retraining without the target",
        file="certify/shadow_models.py",
        right="left.forget(leaving)",
        wrong="left.forget(leaving[:0])",
        tests=("tests/certify/test_shadow_models.py",),
    ),
    Mutant(
        breaks="the records keep an attack rounded",
        file="workspace/audit.py",
        right="audit.with_attack(made.rounded())",
        wrong="audit.with_attack(made)",
        tests=("tests/workspace/test_attacks.py",),
    ),
    Mutant(
        breaks="sums from which long rows were taken away are off as sums with them are",
        file="certify/certifier.py",
        right="radius = max(radius, longest)",
        wrong="pass",
        tests=("tests/certify/test_rounding_of_sums.py",),
    ),
    Mutant(
        breaks="the weight of what remains is summed, and not what is left of a difference",
        file="engines/base.py",
        right="return self.total_weight(self.without(rows))",
        wrong="return self.total_weight() - self.weight_of(rows)",
        tests=("tests/certify/test_rounding_of_sums.py",),
    ),
    Mutant(
        breaks="a certificate of sparse rows rests on a gradient that was measured",
        file="certify/polishing.py",
        right="found = self.data.measured_gradient_sum(centre, self.mask)",
        wrong="found = self.data.gradient_sum(centre, self.mask)",
        tests=("tests/certify/test_rounding_of_sums.py",),
    ),
    Mutant(
        breaks="a guide whose steps leave nearly all of a gradient is not followed without a pass",
        file="methods/running_guide.py",
        right="if since.left is None or self.share is None or not self._leads:",
        wrong="if since.left is None or self.share is None:",
        tests=("tests/methods/test_running_guide.py",),
    ),
    Mutant(
        breaks="steps far longer than those that were seen are not trusted: samples miss columns",
        file="methods/running_guide.py",
        right="return max(1.0, stretch / usual) if usual > 0 else math.inf",
        wrong="return 1.0",
        tests=("tests/methods/test_running_guide.py",),
    ),
    Mutant(
        breaks="a guide that was made of rows that have left is in no pickle",
        file="estimator/fitted.py",
        right="                running_guide=None,\n",
        wrong="",
        tests=("tests/methods/test_running_guide.py",),
    ),
    Mutant(
        breaks="exp(-a) is right wherever its exponent is rounded",
        file="core/kernels/logistic.py",
        right="n = np.int32(z + 0.5)",
        wrong="n = np.int32(z)",
        tests=("tests/core/test_logistic_kernels.py",),
    ),
    Mutant(
        breaks="weights of sparse rows multiply their share of the gradient",
        file="core/kernels/sparse_pairs.py",
        right="slope[b] *= weight",
        wrong="slope[b] *= 1.0",
        tests=("tests/core/test_hot_columns.py",),
    ),
    Mutant(
        breaks="rows that are left out of a sum are not read, wherever rows are packed",
        file="core/kernels/packed.py",
        right="            if not keep.size or keep[row]:\n",
        wrong="            if keep.size or not keep.size:\n",
        tests=("tests/core/test_packed_rows.py",),
    ),
    Mutant(
        breaks="after an erasure no margins of the weights before it are kept in memory",
        file="workspace/model.py",
        right="            self.test.drop_others(state.weights, state.centre)\n",
        wrong="",
        tests=("tests/workspace/test_kept_centre.py",),
    ),
    Mutant(
        breaks="a class that loses its last row is seen",
        file="engines/base.py",
        right="        mask, found = self.without(rows), np.zeros(n_classes, np.bool_)\n",
        wrong="        mask, found = self.remaining, np.zeros(n_classes, np.bool_)\n",
        tests=("tests/engines/test_cpu.py", "tests/lifecycle/test_policy.py"),
    ),
    Mutant(
        breaks="a log-loss that was noted is that of the same held-out rows",
        file="lifecycle/pipeline.py",
        right="        same = np.array_equal(known, weights) and np.array_equal(rows, chosen)\n",
        wrong="        same = np.array_equal(known, weights)\n",
        tests=("tests/lifecycle/test_policy.py",),
    ),
)


def copy_of_the_tree(folder: Path) -> Path:
    for name in COPIED:
        source = HERE / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copyfile(source, folder / name)
    return folder


def caught(mutant: Mutant, folder: Path) -> str | None:
    """The first of its tests that fails, or None if all pass."""
    path = folder / "src" / "unfit" / mutant.file
    text = path.read_text()
    if text.count(mutant.right) != 1:
        raise SystemExit(f"{mutant.file} holds {text.count(mutant.right)} times: {mutant.right}")
    path.write_text(text.replace(mutant.right, mutant.wrong))
    try:
        return failing(mutant.tests, folder)
    finally:
        path.write_text(text)


def failing(tests: Iterable[str], folder: Path) -> str | None:
    """The first test that fails, or None if all pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "--tb=no", "-m", QUICK, *tests],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: a test failed; others: pytest could not run them
        raise SystemExit(done.stdout + done.stderr)
    if done.returncode == 0:
        return None
    names = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return names[0] if names else "a test without a name"


def main() -> None:
    chosen = [int(text) for text in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    survived = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = copy_of_the_tree(Path(scratch))
        broken = failing({test for n in chosen for test in MUTANTS[n - 1].tests}, folder)
        if broken is not None:
            raise SystemExit(f"without any mutant, {broken} fails; nothing can be said")
        for number in chosen:
            mutant = MUTANTS[number - 1]
            found = caught(mutant, folder)
            survived += found is None
            verdict = "SURVIVED" if found is None else "caught  "
            print(f"{number:>2} {verdict} {mutant.breaks} ({mutant.file})", flush=True)
            if found is not None:
                print(f"            by {found}", flush=True)
    raise SystemExit(1 if survived else 0)


if __name__ == "__main__":
    main()
