"""Predictions: one row or many, JSON or Arrow, with the version that answered."""

from typing import Any

import pyarrow as pa
from fastapi import Request, Response
from pydantic_core import from_json, to_json
from starlette.concurrency import run_in_threadpool

from unfit.service import arrow_streams
from unfit.service.api.common import problems, router
from unfit.service.auth import RawRoute, allow
from unfit.service.context import ServiceContext, context_of
from unfit.service.json_bodies import require_single_keys
from unfit.service.predictor import Predictor
from unfit.service.problems import Problem
from unfit.service.usecases import predictions

ARROW = "application/vnd.apache.arrow.stream"
MAX_INLINE_ROWS = 50  # more are predicted in a thread

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
    """One object per row with every column of the model; null stands for a missing value. Fields
    that the model does not know are ignored. `service.max_rows` limits the rows of JSON and
    Arrow."""
    context = context_of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        predictor = await _predictor(request, context)
        rows = _rows(body, context.config.service.max_rows)
        if len(rows) <= MAX_INLINE_ROWS:
            content = predictions.predict_rows(context, predictor, rows)
        else:
            content = await run_in_threadpool(predictions.predict_rows, context, predictor, rows)
        return Response(to_json(content), media_type="application/json")
    if kind == ARROW:
        body = await request.body()
        predictor = await _predictor(request, context)
        wants_arrow = ARROW in request.headers.get("accept", "")
        return await run_in_threadpool(_arrow, body, predictor, context, wants_arrow)
    raise Problem(415, f"The Content-Type must be application/json or {ARROW}.")


async def _predictor(request: Request, context: ServiceContext) -> Predictor:
    """The model as of the whole request: it has forgotten everybody who was forgotten while the
    body arrived."""
    seen = request.state.seen if request.state.whole else await context.changes.read()
    return await context.predictors.get(seen)


def _rows(body: bytes, most: int) -> list[dict[str, Any]]:
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(400, f"The body is not valid JSON: {str(error)[:120]}.") from None
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows or len(content) != 1:
        raise Problem(422, 'The body must be {"rows": [{...}, ...]} with at least one row.')
    if len(rows) > most:
        raise Problem(
            422,
            f"The body has {len(rows):,} rows; the limit is {most:,} (service.max_rows). "
            "Send fewer rows per request.",
        )
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Problem(422, f"Row {i} is not a JSON object.")
    require_single_keys(body, rows)
    return rows


def _arrow(
    body: bytes, predictor: Predictor, context: ServiceContext, wants_arrow: bool
) -> Response:
    table = arrow_streams.read(body, context.config.service.max_rows)
    made = predictions.predict_table(context, predictor, table)
    if wants_arrow:
        assert made.table is not None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, made.table.schema) as writer:
            writer.write_table(made.table)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
    content = predictions.as_json(predictor, made)
    return Response(to_json(content), media_type="application/json")
