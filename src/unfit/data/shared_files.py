"""The training rows of a generation as files that processes elsewhere can map."""

from collections.abc import Sequence

import numpy as np

from unfit.data.dataset import DTYPES, Dataset
from unfit.row_files import MANIFEST, Array, RowFiles, digest_of

_SHARED = ("X", "X_indptr", "X_indices", "X_data", "labels", "live")


def shared_files(
    dataset: Dataset, class_of_label: np.ndarray, class_weights: Sequence[float] | None
) -> RowFiles:
    """class_of_label: label code -> class code, -1 where it is not known."""
    shapes = {name: dataset[name].shape for name in _SHARED if name in dataset}
    folder = dataset.folder.resolve()
    return RowFiles(
        folder=str(folder),
        digest=digest_of(folder / MANIFEST),
        n=dataset.n_train,
        width=dataset.width,
        arrays={name: Array(dtype=DTYPES[name], shape=shape) for name, shape in shapes.items()},
        class_of_label=tuple(class_of_label.tolist()),
        weight_of_class=None if class_weights is None else (*class_weights, 1.0),
    )
