"""unfit.toml: what init writes is read back; what is wrong is named by its key."""

import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from workspaces import make

import people
from unfit.errors import BadInput
from unfit.workspace import Workspace, init
from unfit.workspace.config import check, read


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    kept = make(tmp_path_factory.mktemp("config") / "w", None, trained=False)
    return (kept.folder / "unfit.toml").read_text()


def test_every_choice_is_visible_and_commented(text: str) -> None:
    content = tomllib.loads(text)
    assert set(content) == {
        "id",
        "source",
        "roles",
        "split",
        "model",
        "preprocessing",
        "policy",
        "certify",
        "retention",
        "store",
        "service",
        "engine",
        "columns",
    }
    for table in ("model", "policy", "retention", "preprocessing", "split", "service", "engine"):
        config = check(content)
        fields = set(getattr(config, table).__dataclass_fields__)
        written = {line.split("=")[0].strip("# ").strip() for line in text.splitlines()}
        assert fields - {"random_state", "auc_floor"} <= written, table  # that one is installed
    assert "fitted" in text
    assert "derived from the data" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('method = "fisher"', 'method = "magic"', r"model\.method"),
        ("l2 = 0.0001", "l2 = -1", r"model\.l2"),
        ("l2 = 0.0001", 'l2 = "much"', r"model\.l2"),
        ("period = 50", "period = 0", r"model\.period"),
        ("period = 50", "perriod = 50", r"model\.perriod is not a known key"),
        ('solver = "auto"', 'solver = "lbfgs"', r"model\.solver"),
        ('batch_size = "all"', 'batch_size = "some"', r"model\.deletion_batch_size"),
        ("test_share = 0.2", "test_share = 1.5", r"split\.test_share"),
        ("test_share = 0.2", "test_share = nan", r"split\.test_share"),
        ('retrain_when = ["disparity"]', 'retrain_when = ["sometimes"]', r"policy\.retrain_when"),
        ('retrain_when = ["disparity"]', "retrain_when = []", r"policy\.retrain_when"),
        ('["disparity"]', '["never", "count"]', r"policy\.retrain_when names"),
        ('["disparity"]', '"disparity"', r"policy\.retrain_when: input should be a valid list"),
        ('audit_window = "none"', 'audit_window = "a while"', r"retention\.audit_window must be"),
        ('norm = "none"', 'norm = "huge"', r"preprocessing\.norm"),
        ('label = "label"', "", r"roles\.label is missing"),
        ('kind = "numeric"', 'kind = "date"', r"columns\.age\.kind"),
        ('kind = "numeric"', 'kind = "numeric"\ncolour = 3', r"columns\.age\.colour is not known"),
        ('scale = "standard"\nmissing', 'scale = "range"\nmissing', "declare them"),
        ('path = "../people.parquet"', "", "path or url"),
        ("[split]", "[splitt]", "splitt is not a known key"),
        ('url = "sqlite"', 'url = "$NOT_SET_AT_ALL"', "NOT_SET_AT_ALL, which is not set"),
        ('deletion_list = "../ws', 'deletion_list = "ws', "outside the workspace"),
        ('id = "', "id = ", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, said: str, text: str, tmp_path: Path) -> None:
    assert old in text
    (tmp_path / "unfit.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput, match=said) as caught:
        Workspace(tmp_path)
    assert str(caught.value).startswith("unfit.toml")
    assert "\n" not in str(caught.value)


def test_a_folder_without_it_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a workspace"):
        Workspace(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "nothing"}, "no column 'nothing'; there are person"),
        ({"subject": "nobody"}, "no column 'nobody'"),
        ({"label": None}, None),
        ({"label": "income"}, "different values; unfit predicts classes"),
        ({"ignore": ["x"]}, "no column 'x'"),
        ({"ignore": ["label"]}, "the label and something else"),
        ({"subject": "label"}, "the label and something else"),
        ({"positive": ["perhaps"]}, "never has the positive value 'perhaps'"),
        ({"store": "mysql://x"}, "sqlite or a postgresql"),
        ({"audit_window": "long"}, r"retention\.audit_window must be"),
        ({"method": "magic"}, "--method"),
        ({"test_share": 2.0}, "--test-share"),
        ({"subject": None}, "--subject or --row-id, or leave it out"),
    ],
)
def test_init_says_what_it_needs(options: dict, said: str | None, tmp_path: Path) -> None:
    table = people.people(n=2000, subjects=1900)
    if options == {"subject": None}:
        table = table.rename_columns(["customer_name", *table.column_names[1:]])
    source = people.write(table, tmp_path / "t.csv")
    asked = {"label": "label", "subject": "person", "row_id": "record"} | options
    if said is None:
        init(source, tmp_path / "w", **asked)
        return
    with pytest.raises(BadInput, match=said):
        init(source, tmp_path / "w", **asked)
    assert not (tmp_path / "w").exists()


def test_init_refuses_dates_lists_and_a_workspace_that_is_there(tmp_path: Path) -> None:
    table = people.people(n=50)
    dates = table.append_column("born", pa.array(["1980-01-02"] * 50))
    with pytest.raises(BadInput, match="'born' holds dates; turn dates into numbers"):
        init(
            people.write(dates, tmp_path / "d.csv"),
            tmp_path / "w",
            label="label",
            subject="person",
            row_id="record",
        )
    lists = table.append_column("list", pa.array([[1]] * 50))
    with pytest.raises(BadInput, match="'list' holds list"):
        init(people.write(lists, tmp_path / "l.parquet"), tmp_path / "w", label="label")
    source = people.write(table, tmp_path / "t.csv")
    init(source, tmp_path / "w", label="label", subject="person", row_id="record")
    with pytest.raises(BadInput, match="workspace already"):
        init(source, tmp_path / "w", label="label")
    assert read(tmp_path / "w").source.path == "../t.csv"


def test_declared_variables_stand_for_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = make(tmp_path / "w", None, trained=False)
    monkeypatch.setenv("OUR_STORE", f"sqlite:///{tmp_path}/elsewhere.db")
    toml = kept.folder / "unfit.toml"
    toml.write_text(toml.read_text().replace('url = "sqlite"', 'url = "$OUR_STORE"'))
    with Workspace(kept.folder) as ws:
        ws.train()
    assert (tmp_path / "elsewhere.db").exists()
