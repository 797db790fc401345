"""unfit: linear classifiers that can forget.

>>> clf = unfit.LogisticRegression(method="fisher").fit(X, y)
>>> clf.unlearn([17, 4242])
>>> print(clf.audit())

`unfit.Workspace(path)` is the whole pipeline in a folder. Each name is imported when it is first
asked for, so that nobody waits for what they do not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unfit.audit import Audit
    from unfit.data.preprocessing import MaxNormScaler
    from unfit.estimator import (
        LinearClassifier,
        LinearSVC,
        LogisticRegression,
        RidgeClassifier,
    )
    from unfit.estimator.training_warnings import UnboundedReplayWarning
    from unfit.fitted_steps import FittedStepWarning
    from unfit.pipeline import Pipeline
    from unfit.step_size import UnscaledRowsWarning
    from unfit.workspace import Workspace

__version__ = "0.1.0"
__all__ = [
    "Audit",
    "FittedStepWarning",
    "LinearClassifier",
    "LinearSVC",
    "LogisticRegression",
    "MaxNormScaler",
    "Pipeline",
    "RidgeClassifier",
    "UnboundedReplayWarning",
    "UnscaledRowsWarning",
    "Workspace",
    "__version__",
]

_HOMES = {
    "Audit": "unfit.audit",
    "FittedStepWarning": "unfit.fitted_steps",
    "LinearClassifier": "unfit.estimator",
    "LinearSVC": "unfit.estimator",
    "LogisticRegression": "unfit.estimator",
    "MaxNormScaler": "unfit.data.preprocessing",
    "Pipeline": "unfit.pipeline",
    "RidgeClassifier": "unfit.estimator",
    "UnboundedReplayWarning": "unfit.estimator.training_warnings",
    "UnscaledRowsWarning": "unfit.step_size",
    "Workspace": "unfit.workspace",
}


def __getattr__(name: str) -> Any:
    if name == "engines":
        return import_module("unfit.engines")
    if name not in _HOMES:
        raise AttributeError(f"module 'unfit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
