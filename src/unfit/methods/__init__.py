"""The registry: a method is one file here and one line below."""

from unfit.methods.base import OFFERED, Method, Settings, State
from unfit.methods.deltagrad import DeltaGrad
from unfit.methods.fisher import Fisher
from unfit.methods.influence import Influence
from unfit.methods.retrain import Retrain

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Fisher, Influence, DeltaGrad, Retrain)
}

__all__ = ["METHODS", "OFFERED", "Method", "Settings", "State"]
