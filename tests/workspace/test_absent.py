"""Categories without a column: too rare for one, and never seen, are two things."""

from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner
from workspaces import Kept, make

from unfit.cli import app
from unfit.workspace import Workspace
from unfit.workspace.prediction import predict_file

N = 300


def shops(city: list[str]) -> pa.Table:
    label = ["yes" if (7 * i) % 10 < 4 else "no" for i in range(len(city))]
    amount = [float((13 * i) % 17) for i in range(len(city))]
    return pa.table({"city": city, "amount": amount, "label": label})


def cities() -> list[str]:
    """Two frequent ones, one that enough rows hold and that gets no column, one of a few rows."""
    city = ["Ulm"] * 140 + ["Jena"] * 100 + ["Hof"] * 56 + ["Sylt"] * 4
    return [city[(i * 7) % N] for i in range(N)]


def trained(at: Path) -> tuple[Kept, pa.Table]:
    table = shops(cities())
    kept = make(
        at / "w",
        None,
        table=table,
        subject=None,
        row_id=None,
        max_categories=2,
        edit=lambda text: text.replace("min_rows = 1 ", "min_rows = 10"),
    )
    return kept, table


def test_on_the_training_file_nothing_is_never_seen(tmp_path: Path) -> None:
    kept, table = trained(tmp_path)
    with kept.open() as ws:
        own = ws.predict(table)
        assert (own.rare, own.unseen) == (60, 0)
        asked = ws.predict(shops(["Ulm", "Hof", "Sylt", "Atlantis", "Sylt"]))
        assert (asked.rare, asked.unseen) == (3, 1)


def test_who_sees_the_card_alone_cannot_tell_a_rare_name_from_none(tmp_path: Path) -> None:
    """As the service does: a name that few hold may be one person's."""
    kept, _ = trained(tmp_path)
    with kept.open() as ws:
        model, asked = ws.active_model(), shops(["Hof", "Sylt", "Atlantis"])
        made = predict_file(model, asked, ws.config)
        assert (made.rare, made.unseen) == (1, 2)
        assert "Hof" in str(model.card.to_json())
        assert "Sylt" not in str(model.card.to_json())


def test_a_rare_name_that_everybody_left_is_never_seen_again(tmp_path: Path) -> None:
    kept, table = trained(tmp_path)
    rows = [i for i, name in enumerate(table["city"].to_pylist()) if name == "Sylt"]
    with kept.open() as ws:
        assert ws.predict(shops(["Sylt", "Ulm"])).rare == 1
        ws.forget(rows=rows)
    with Workspace(kept.folder) as ws:
        asked = ws.predict(shops(["Sylt", "Ulm"]))
        assert (asked.rare, asked.unseen) == (0, 1)
    for path in kept.folder.rglob("*"):
        assert not path.is_file() or b"Sylt" not in path.read_bytes()


def test_the_command_says_both_counts(tmp_path: Path) -> None:
    kept, _ = trained(tmp_path)
    from people import write

    asked = write(shops(["Ulm", "Hof", "Sylt", "Atlantis", "Sylt"]), tmp_path / "new.csv")
    out = tmp_path / "out.csv"
    options = ["predict", str(asked), "-o", str(out), "--workspace", str(kept.folder)]
    said = CliRunner().invoke(app, options)
    assert said.exit_code == 0
    assert "3 with a category too rare for a column of its own" in said.output
    assert "1 with a category never seen" in said.output
