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
        assert Encoding.from_json(said["encoding"]) == one.scorer().card.encoding


def test_a_name_that_leaves_with_held_out_rows_leaves_the_export(tmp_path: Path) -> None:
    """The version stays the same, its card does not."""
    kept = make(tmp_path / "w", None)
    table = people.people().to_pandas()
    with kept.open() as ws, kept.open() as worker:
        with ws._writing() as keeper:
            dataset = keeper.dataset()
            training = set(dataset["numbers"][: dataset.n_train].tolist())
        holding = table.index[table["city"] == "c3"]
        for part in (
            [i for i in holding if i in training], [i for i in holding if i not in training]
        ):  # fmt: skip
            assert part
            assert '"c3"' in card(ws)
            worker.forget(rows=table["record"][part].tolist())
        assert '"c3"' not in card(ws)
        assert ws.export()[0] == 2
