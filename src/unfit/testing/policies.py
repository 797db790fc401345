"""The contract of a policy."""

from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unfit.lifecycle.policy import Facts, Policy


def check_policy(policy: "type[Policy]") -> None:
    """The contract of a policy: it is explained, it is pure, and it decides whatever is known.

    Where nothing was measured and no row has gone, it does not retrain, unless it stands `alone`.
    """
    from unfit.knobs import knobs
    from unfit.lifecycle.policy import Facts, Verdict

    name = policy.__name__
    assert is_dataclass(policy), f"{name} is not a dataclass"
    assert policy.__dataclass_params__.frozen, f"{name} is not frozen"  # type: ignore[attr-defined]
    assert getattr(policy, "title", ""), f"{name} has no title"
    described = getattr(policy, "description", "")
    assert described.endswith("."), f"the description of {name} is not a sentence"
    for knob in knobs(policy):
        assert knob.default is not MISSING, f"{name}.{knob.name} has no default"
        assert knob.help, f"{name}.{knob.name} has no help"
    made = policy()
    assert _is_line(made.condition()), f"{name}.condition() is not one line"
    for facts in _facts():
        verdict = made.decide(facts)
        assert isinstance(verdict, Verdict), f"{name}.decide does not return a Verdict"
        assert isinstance(verdict.retrain, bool), f"{name} does not say whether to retrain"
        assert _is_line(verdict.reason), f"the reason of {name} is not one line"
        assert SECRET not in verdict.reason, f"{name} names a class that may be erased"
        assert policy().decide(facts) == verdict, f"{name} decides differently on the same facts"
    unmeasured = made.decide(Facts(rows=1000, deleted=0))
    assert policy.alone or not unmeasured.retrain, f"{name} retrains although nothing was measured"


SECRET = "a class with a telling name"


def _facts() -> "Iterator[Facts]":
    """Nothing measured, everything measured, extremes."""
    from unfit.lifecycle.policy import Facts

    for rows, deleted in ((1, 0), (1000, 1), (1000, 1000)):
        for emptied in ((), (SECRET,)):
            nothing = Facts(rows=rows, deleted=deleted, emptied=emptied)
            yield nothing
            for value in (0.0, 0.5, 1.0):
                yield replace(
                    nothing,
                    initial_accuracy=0.5,
                    accuracy=value,
                    acc_err_init=100 * value,
                    slope=2.0,
                    estimate=200 * value,
                    majority=0.5,
                    log_loss=value,
                    auc=value,
                    log_loss_change=value - 0.5,
                    distance=value,
                    disparity=100 * value,
                    joint_mu=4 * value,
                )


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text
