"""The scikit-learn face: classifiers with the verb that was missing.

May know methods, engines and the audit; the numbers are computed there.
"""

from unfit.estimator.classifiers import LinearSVC, LogisticRegression, RidgeClassifier
from unfit.estimator.linear import LinearClassifier

__all__ = ["LinearClassifier", "LinearSVC", "LogisticRegression", "RidgeClassifier"]
