"""What a study is given beside unfit's own: files, installed methods and policies, another loss.

Every process of a study takes them in before it starts.
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unfit.errors import BadInput
from unfit.experiments.contenders import CONTENDERS, add_installed
from unfit.experiments.plans import EXTRA_POLICIES
from unfit.lifecycle.policies import POLICIES
from unfit.loss_registry import LOSSES
from unfit.methods import METHODS


@dataclass(frozen=True)
class Extensions:
    """added: Python files that add methods, data sets or laws, and names of installed methods and
    policies. loss: what all models of the study minimise."""

    added: tuple[str, ...] = ()
    loss: str = "logistic"

    def take_in(self) -> None:
        """Make everything known to this process; once is enough."""
        LOSSES.find(self.loss)
        for name in self.added:
            if name in METHODS and name not in CONTENDERS:
                add_installed(name)
            elif name in POLICIES and name not in EXTRA_POLICIES:
                EXTRA_POLICIES.append(name)
            elif name not in METHODS and name not in POLICIES:
                _import(Path(name))

    def digests(self) -> Iterator[tuple[str, str]]:
        """What is added, in words, and a digest of its code."""
        for name in self.added:
            known = METHODS.get(name) or POLICIES.get(name)
            source = inspect.getsourcefile(known) if known else name
            content = Path(source).read_bytes() if source else b""
            what = f"installed {name}" if known else f"file {Path(name).name}"
            yield what, hashlib.sha256(content).hexdigest()


def _import(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"there is no file {path}, and no installed method or policy of that name")
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"unfit_extension_{path.stem}_{digest}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadInput(f"{path.name}: {type(error).__name__}: {error}") from error
