"""What is taken away is the model as it is now."""

import io
import json
import zipfile
from pathlib import Path

from workspaces import Kept, make

import people
from unfit.data.encoding import Encoding
from unfit.workspace import Workspace


def card(ws: Workspace) -> str:
    _, content = ws.export()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert file.namelist() == ["model.safetensors", "card.json", "README.txt"]
        return file.read("card.json").decode()


def test_an_export_is_the_same_bytes_for_the_same_model(trained: Kept) -> None:
    with trained.open() as one, trained.open() as other:
        assert one.export() == other.export()
        number, _ = one.export()
        said = json.loads(card(one))
        assert said["version"] == number == 1
        assert Encoding.from_json(said["encoding"]) == one.active_model().card.encoding


def test_a_name_that_only_held_out_rows_hold_is_on_no_card(tmp_path: Path) -> None:
    """Constants are those of the training rows that remain; a change of them is a new version."""
    kept = make(tmp_path / "w", None)
    table = people.people().to_pandas()
    with kept.open() as ws, kept.open() as worker:
        with ws.session() as session:
            dataset = session.dataset()
            training = set(dataset["numbers"][: dataset.n_train].tolist())
        holding = table.index[table["city"] == "c3"]
        assert '"c3"' in card(ws)
        made = worker.forget(rows=table["record"][[i for i in holding if i in training]].tolist())
        assert made.action == "retrain"
        assert "a category of column 'city' is held by fewer than 1 training rows" in made.reason
        assert "c3" not in made.reason
        assert '"c3"' not in card(ws)
        worker.forget(rows=table["record"][[i for i in holding if i not in training]].tolist())
        assert ws.export()[0] == 2


def test_the_card_says_in_words_how_each_constant_was_come_by(trained: Kept) -> None:
    with trained.open() as ws:
        said = json.loads(card(ws))
    words = said["constants"]["columns"]
    assert said["format"] == 2
    assert words["age"]["shift"].startswith("fitted: the mean of the training rows that remain, ")
    assert "rounded to an eighth" in words["age"]["shift"]
    assert "rounded to a power of two" in words["age"]["scale"]
    assert words["age"]["fill"] == "the shift"
    assert words["member"]["fill"].startswith("fitted: the mean")
    assert words["city"]["categories"].startswith("fitted: held by at least 1 of the training rows")
    assert said["constants"]["norm"].startswith("none")
