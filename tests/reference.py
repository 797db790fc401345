"""The mathematics written down plainly in NumPy, with nothing of ours, to compare with."""

import numpy as np


def with_ones(X, intercept):
    X = np.asarray(X, np.float64)
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def targets(codes, c, k):
    return (codes == (1 if k == 1 else c)).astype(float)


def value(w, X, t, l2):
    z = X @ w
    return np.sum(np.logaddexp(0, z) - t * z) + 0.5 * l2 * len(X) * w @ w


def gradient(w, X, t, l2):
    return X.T @ (1 / (1 + np.exp(-X @ w)) - t) + l2 * len(X) * w


def hessian(w, X, l2):
    p = 1 / (1 + np.exp(-X @ w))
    return (X * (p * (1 - p))[:, None]).T @ X + l2 * len(X) * np.eye(X.shape[1])


def one_step(method, w, X, t, deleted, l2, batch):
    """FISHER or INFLUENCE without noise, by dense solves over the rows themselves."""
    present = np.ones(len(X), bool)
    for start in range(0, len(deleted), batch):
        leaving = deleted[start : start + batch]
        present[leaving] = False
        H = hessian(w, X[present], l2)
        if method == "fisher":
            w = w - np.linalg.solve(H, gradient(w, X[present], t[present], l2))
        else:
            w = w + np.linalg.solve(H, gradient(w, X[leaving], t[leaving], l2))
    return w


def mean_data_gradient(w, X, t):
    return gradient(w, X, t, 0.0) / len(X)


def sgd(w, X, t, batches, eta, l2):
    """Weights and the stored (w_t, g_t); batches are lists of row numbers."""
    stored = []
    for rows in batches:
        g = mean_data_gradient(w, X[rows], t[rows])
        stored.append((w.copy(), g))
        w = w - eta * (g + l2 * w)
    return w, stored


def lbfgs_product(S, Y, v):
    """B v, B made by the textbook BFGS recursion from sig I (sig of the newest pair)."""
    B = (Y[-1] @ S[-1]) / (S[-1] @ S[-1]) * np.eye(len(v))
    for s, y in zip(S, Y, strict=True):
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    return B @ v


def deltagrad(stored, X, t, batches, present, leaving, eta, l2, burn_in, period, floor):
    """New w and trajectory of a replay without `leaving`; present: rows in the data before."""
    radius = np.linalg.norm(X, axis=1).max()
    w = stored[0][0].copy()
    pairs, out = [], []
    for step, ((w_t, g_t), rows) in enumerate(zip(stored, batches, strict=True)):
        now = [r for r in rows if present[r]]
        keep = [r for r in now if r not in leaving]
        gone = [r for r in now if r in leaving]
        if not keep:
            out.append((w.copy(), np.zeros_like(w)))
            continue
        if step <= burn_in or (step - burn_in) % period == 0 or not pairs:
            g_keep = mean_data_gradient(w, X[keep], t[keep])
            s = w - w_t
            y = mean_data_gradient(w, X[now], t[now]) - g_t
            if y @ s > floor * (s @ s) and s @ s > 1e-20 * (w @ w):
                pairs = [*pairs, (s, y)][-2:]
        else:
            S, Y = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
            g_all = g_t + lbfgs_product(S, Y, w - w_t)
            lost = gradient(w, X[gone], t[gone], 0.0) if gone else 0.0
            g_keep = (len(now) * g_all - lost) / len(keep)
            if np.linalg.norm(g_keep) > radius:
                g_keep, pairs = mean_data_gradient(w, X[keep], t[keep]), []
        out.append((w.copy(), g_keep))
        w = w - eta * (g_keep + l2 * w)
    return w, out
