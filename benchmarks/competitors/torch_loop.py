"""A plain PyTorch mini-batch loop, as an ordinary user would write it.

Two of them: rows picked by a random permutation (the faster; it counts) and a DataLoader.
"""

import time
from collections.abc import Iterator

from ..data import Data


def available() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.__version__ is not None


def seconds_per_epoch(data: Data, steps: int, loader: bool = False) -> float:
    """Time of an epoch, from `steps` steps after a few to warm up."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y).float()
    n, d = X.shape
    model = torch.nn.Linear(d, 1, bias=data.intercept)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=1e-4)
    loss_function = torch.nn.BCEWithLogitsLoss()

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            if loader:
                yield from DataLoader(TensorDataset(X, y), batch_size=data.batch_size, shuffle=True)
            else:
                order = torch.randperm(n)
                for begin in range(0, n, data.batch_size):
                    rows = order[begin : begin + data.batch_size]
                    yield X[rows], y[rows]

    stream = batches()

    def step() -> None:
        X_batch, y_batch = next(stream)
        optimizer.zero_grad()
        loss = loss_function(model(X_batch).squeeze(1), y_batch)
        loss.backward()
        optimizer.step()

    for _ in range(10):
        step()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begin) / steps * -(-n // data.batch_size)
