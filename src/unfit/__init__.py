"""unfit: linear classifiers that can forget.

>>> clf = unfit.LogisticRegression(method="fisher").fit(X, y)
>>> clf.unlearn([17, 4242])
>>> print(clf.audit())

`unfit.Workspace(path)` is the whole pipeline in a folder; it is imported when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from unfit.audit import Audit
from unfit.data.preprocessing import MaxNormScaler
from unfit.estimator import LogisticRegression

if TYPE_CHECKING:
    from unfit.workspace import Workspace

__version__ = "0.1.0"
__all__ = ["Audit", "LogisticRegression", "MaxNormScaler", "Workspace", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Workspace":  # pyarrow and SQLAlchemy come with it
        from unfit.workspace import Workspace

        return Workspace
    raise AttributeError(f"module 'unfit' has no attribute {name!r}")
