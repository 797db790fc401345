"""Predictions: one row or many, JSON or Arrow, with the version that answered."""

from typing import Any

import pyarrow as pa
from fastapi import Request, Response
from pydantic_core import from_json, to_json
from starlette.concurrency import run_in_threadpool

from unfit.service import arrow_streams
from unfit.service.api.common import context_of, problems, router, schemas
from unfit.service.auth import RawRoute, allow
from unfit.service.context import ServiceContext
from unfit.service.json_bodies import require_single_keys
from unfit.service.predictor import Predictor
from unfit.service.problems import Problem
from unfit.workspace.prediction import predict_file

ARROW = "application/vnd.apache.arrow.stream"
BESIDE = 50  # rows; more are worked on in a thread

routes = router("predictions", RawRoute)


@routes.post(
    "/predictions",
    summary="Predict",
    responses={
        200: {
            "description": "A class and probabilities for each row, and the version that answered.",
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/PredictionsOut"}},
                ARROW: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **problems(408, 413, 415),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/PredictionsIn"},
                    "examples": {"one": {"value": {"rows": [{"age": 44, "plan": "family"}]}}},
                },
                ARROW: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
@allow("predict")
async def predict(request: Request) -> Response:
    """An object per row with every column of the model; null where a value is missing. Fields that
    the model does not know are ignored. `service.max_rows` holds for JSON and for Arrow."""
    context = context_of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        predictor = await _predictor(request, context)
        rows = _rows(body, context.config.service.max_rows)
        if len(rows) <= BESIDE:
            answers, absent = predictor.answer(rows)
        else:
            answers, absent = await run_in_threadpool(predictor.answer, rows)
        context.metrics.predicted(len(rows))
        content = {"version": predictor.model.version, **absent._asdict(), "predictions": answers}
        return Response(to_json(content), media_type="application/json")
    if kind == ARROW:
        body = await request.body()
        predictor = await _predictor(request, context)
        wants_arrow = ARROW in request.headers.get("accept", "")
        return await run_in_threadpool(_arrow, body, predictor, context, wants_arrow)
    raise Problem(415, f"the body must be application/json or {ARROW}")


async def _predictor(request: Request, context: ServiceContext) -> Predictor:
    """The model as of the whole question: who was forgotten while its body came is not in it."""
    seen = request.state.seen if request.state.whole else await context.changes.read()
    return await context.predictors.get(seen)


def _rows(body: bytes, most: int) -> list[dict[str, Any]]:
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {str(error)[:120]}") from None
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows or len(content) != 1:
        raise Problem(422, 'the body must be {"rows": [{...}, ...]} with at least one row')
    if len(rows) > most:
        raise Problem(422, f"{len(rows):,} rows are over {most:,}; send fewer, or Arrow")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Problem(422, f"row {i} is not an object")
    require_single_keys(body, rows)
    return rows


def _arrow(
    body: bytes, predictor: Predictor, context: ServiceContext, wants_arrow: bool
) -> Response:
    table = arrow_streams.read(body, context.config.service.max_rows)
    made = predict_file(predictor.model, table, context.config)
    assert made.table is not None
    context.metrics.predicted(made.rows)
    if wants_arrow:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, made.table.schema) as writer:
            writer.write_table(made.table)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
    names = predictor.model.card.classes
    columns = made.table.column_names
    prefix = "unfit_" if "unfit_prediction" in columns else ""
    said = made.table[f"{prefix}prediction"].to_pylist()
    each = zip(*(made.table[f"{prefix}p_{name}"].to_pylist() for name in names), strict=True)
    answers = [
        {"class": one, "probabilities": dict(zip(names, p, strict=True))}
        for one, p in zip(said, each, strict=True)
    ]
    content = {
        "version": made.version,
        "rare": made.rare,
        "unseen": made.unseen,
        "predictions": answers,
    }
    return Response(to_json(content), media_type="application/json")


__all__ = ["routes", "schemas"]
