"""The classifiers by name: one loss makes one class."""

import numpy as np
from numpy.typing import ArrayLike

from unfit.core.losses import SquaredError, SquaredHinge
from unfit.core.predictions import class_probabilities
from unfit.estimator.linear import LinearClassifier


class LogisticRegression(LinearClassifier):
    """Logistic regression that can forget rows it was trained on.

    Minimises  sum_i s_i [ softplus(x_i.w) - t_i x_i.w ] + (l2 n / 2) |w|^2,  one-vs-rest for more
    than two classes; s_i are sample weights, 1 by default, and n is their sum. The intercept is
    regularised like the rest. `unlearn(rows)` then removes rows.

    Parameters
    ----------
    method : "fisher", "influence", "deltagrad", "newton", "retrain", or one that a package adds
        How to unlearn: a Newton step on what remains; the deleted rows' influence; a replay of the
        SGD run; or exact retraining from the current weights.
    l2 : ridge penalty per row, > 0.
    C : in place of l2, the penalty as scikit-learn has it: |w|^2 / (2 C), which does not shrink
        when rows leave.
    penalize_intercept : False leaves the intercept out of the penalty, as scikit-learn does. Not
        with SGD, and not with a certificate.
    sigma : noise added so that what was forgotten cannot be told from the weights, >= 0.
    deletion_batch_size : FISHER and INFLUENCE take so many deleted rows a step, in the order in
        which `unlearn` was given them; None: all at once.
        Smaller is closer to retraining, and slower.
    period, burn_in : DELTAGRAD computes the first `burn_in` steps, then every `period`-th, exactly.
    solver : "newton", "sgd" or "auto" (Newton for all but DELTAGRAD).
    epochs, batch_size, learning_rate : of SGD; batch_size None means all rows.
    tol : Newton stops at |gradient sum| <= tol n.
    fit_intercept : whether a column of ones is added.
    class_weight : weights of classes by name (others: 1), or "balanced": total weight / (classes x
        weight of the class). They multiply sample weights. Balanced ones are a statistic of the
        rows, frozen at `fit`: `unlearn` and `audit` keep them.
    warm_start : whether `fit` starts from the weights of the last one, if they have the same shape.
    dtype : "float32" or "float64", the precision of the rows; weights are always float64.
    random_state : seed or Generator for starting weights, row order and noise.
    engine : who holds the rows and computes sums over them: "cpu", "torch" (a GPU), "auto" (the one
        that is estimated to be faster; `engine_` and `engine_reason_` say which and why), one that
        a package adds, or a cluster, as unfit.engines.Dask(address); X may then be a Dask array or
        data frame. None is that of the environment variable UNFIT_ENGINE, or "cpu".
        Sparse rows go to the engine "sparse".
    options : settings that only one method has, by name, as `steps` and `residual` of "newton".
    epsilon, delta, noise : with epsilon given, every release is certified: it has Gaussian noise of
        this standard deviation on each weight, and cannot be told from a retraining without the
        deleted rows, released in the same way, up to epsilon and delta. `unlearn` goes on until
        that holds, and `certificate_` says what it rests on.

    X can be a scipy.sparse matrix or array; other formats are converted to CSR. Then no array of
    columns times columns is made, whatever the number of columns: steps are solved by products with
    the Hessian, to 1e-9 of the length of the weights. Every method but DELTAGRAD and every solver
    but "sgd" takes sparse rows.

    Notes
    -----
    The rows given to `fit` are kept by reference where they already have the right dtype and
    layout: do not change them between `fit` and `unlearn`. Rows that were forgotten stay in this
    process's memory, where `audit` compares on them.

    A pickle or a copy (pickle, joblib, copy.deepcopy) holds the rows that remain, their labels, and
    the weights; no row that was forgotten, and no statistics, which are made again when they are
    needed. Positions keep their meaning. With sigma > 0 it also holds the weights without noise,
    which the next `unlearn` starts from, and a seed lets anybody draw the noise again: keep such a
    file as you keep the rows. `without_data()` gives a copy to hand out.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    class_weight_ : the weight of each class, in the order of classes_, as `fit` found it.
    n_iter_ : steps of Newton's method, or epochs of SGD, of the last fit.
    n_remaining_ : rows the model stands for now.
    remaining_ : boolean mask of them over the rows of fit.
    certificate_ : what is claimed of the released weights; None without epsilon.
    """

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Class probabilities (n, classes).

        Two classes: calibrated as logistic regression is. More: one-vs-rest, the sigmoids of k
        separate models scaled to sum 1. The class with the largest is the prediction, but as
        probabilities they are not those of a softmax model, and have a larger log-loss: on HAPT,
        12 classes, 0.178 where softmax has 0.143, at the same accuracy.
        """
        scores = self.decision_function(X)
        return class_probabilities(scores[:, None] if scores.ndim == 1 else scores, self.loss)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        return np.asarray(np.log(self.predict_proba(X)))


class RidgeClassifier(LinearClassifier):
    """Ridge regression on labels of -1 and 1, as a classifier that can forget rows.

    Minimises  sum_i (x_i.w - y_i)^2 / 2 + (l2 n / 2) |w|^2,  one-vs-rest for more than two classes.
    The objective is a parabola, so FISHER's one step on the rows that remain is exact: what it
    leaves is what a retraining would find, to rounding. With C=1 / alpha, penalize_intercept=False
    the weights are those of sklearn.linear_model.RidgeClassifier(alpha). Parameters, attributes and
    what is kept are those of LogisticRegression.
    """

    loss = SquaredError()


class LinearSVC(LinearClassifier):
    """A linear support vector machine with the squared hinge loss that can forget rows.

    Minimises  sum_i max(0, 1 - y_i x_i.w)^2 + (l2 n / 2) |w|^2,  y_i -1 or 1, one-vs-rest for more
    than two classes. The weights are those of sklearn.svm.LinearSVC(C=1 / (l2 * n)), or with C
    given, of its LinearSVC(C). Parameters, attributes and what is kept are those of
    LogisticRegression.
    """

    loss = SquaredHinge()
