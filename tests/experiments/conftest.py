import pytest
from studies import extension

from unfit.data.catalog import CATALOG
from unfit.experiments.study import Study, reproduce


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The whole study on a tiny data set, done once: its folder, its extension, its outcome."""
    folder = tmp_path_factory.mktemp("tiny")
    patch = pytest.MonkeyPatch()
    patch.setenv("UNFIT_CACHE", str(folder / "cache"))
    file = extension(folder)
    study = Study(folder / "out", datasets=("tiny",), quick=True, workers=2, extensions=(file,))
    outcome = reproduce(study)
    yield folder, file, outcome
    CATALOG.pop("tiny", None)
    patch.undo()
