"""unfit: linear classifiers that can forget.

>>> clf = unfit.LogisticRegression(method="fisher").fit(X, y)
>>> clf.unlearn([17, 4242])
>>> print(clf.audit())
"""

from unfit.audit import Audit
from unfit.data.preprocessing import MaxNormScaler
from unfit.estimator import LogisticRegression

__version__ = "0.1.0"
__all__ = ["Audit", "LogisticRegression", "MaxNormScaler", "__version__"]
