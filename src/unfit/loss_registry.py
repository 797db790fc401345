"""The losses by name, known without importing any; core.losses explains what one is."""

from typing import TYPE_CHECKING

from unfit.registry import Registry

if TYPE_CHECKING:
    from unfit.core.losses import Loss

LOSSES: "Registry[type[Loss]]" = Registry(
    "loss",
    "unfit.losses",
    {
        "logistic": "unfit.core.losses:Logistic",
        "squared-error": "unfit.core.losses:SquaredError",
        "squared-hinge": "unfit.core.losses:SquaredHinge",
    },
)
