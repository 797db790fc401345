import pytest
from studies import TINY, extension

from unfit.data.catalog import CATALOG, load
from unfit.experiments.extensions import Extensions
from unfit.experiments.study import Study, reproduce
from unfit.experiments.workbench import Workbench


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The whole study on a tiny data set, done once: its folder, its extension, its outcome."""
    folder = tmp_path_factory.mktemp("tiny")
    patch = pytest.MonkeyPatch()
    patch.setenv("UNFIT_CACHE", str(folder / "cache"))
    file = extension(folder)
    study = Study(
        folder / "out",
        datasets=("tiny",),
        quick=True,
        workers=2,
        extensions=Extensions((str(file),)),
    )
    outcome = reproduce(study)
    yield folder, file, outcome
    CATALOG.pop("tiny", None)
    patch.undo()


@pytest.fixture(scope="module")
def workbench(tmp_path_factory):
    """The tiny data set, where runs are done one at a time."""
    folder = tmp_path_factory.mktemp("workbench")
    patch = pytest.MonkeyPatch()
    patch.setenv("UNFIT_CACHE", str(folder / "cache"))
    mine = "tiny" not in CATALOG
    if mine:
        exec(TINY, {})
    yield Workbench(load("tiny"), folder / "models")
    if mine:
        CATALOG.pop("tiny")
    patch.undo()
