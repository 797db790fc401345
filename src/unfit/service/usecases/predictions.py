"""Predictions for rows as JSON objects or as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from unfit.service.context import ServiceContext
from unfit.service.predictor import Predictor
from unfit.workspace.prediction import Predictions, predict_file


def predict_rows(
    context: ServiceContext, predictor: Predictor, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The answer as JSON has it."""
    answers, absent = predictor.answer(rows)
    context.metrics.predicted(len(rows))
    return {"version": predictor.model.version, **absent._asdict(), "predictions": answers}


def predict_table(context: ServiceContext, predictor: Predictor, table: pa.Table) -> Predictions:
    made = predict_file(predictor.model, table, context.config)
    context.metrics.predicted(made.rows)
    return made


def as_json(predictor: Predictor, made: Predictions) -> dict[str, Any]:
    """Predictions for a table, in the form of those for JSON rows."""
    assert made.table is not None
    names = predictor.model.card.classes
    prefix = "unfit_" if "unfit_prediction" in made.table.column_names else ""
    predicted = made.table[f"{prefix}prediction"].to_pylist()
    columns = [made.table[f"{prefix}p_{name}"].to_pylist() for name in names]
    answers = [
        {"class": label, "probabilities": dict(zip(names, p, strict=True))}
        for label, p in zip(predicted, zip(*columns, strict=True), strict=True)
    ]
    return {
        "version": made.version,
        "rare": made.rare,
        "unseen": made.unseen,
        "predictions": answers,
    }
