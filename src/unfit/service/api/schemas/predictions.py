"""Rows to predict, and the answers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

from unfit.service.api.schemas.base import StrictInput, examples


class PredictionsIn(StrictInput):
    """Rows to predict: one object per row, with a field for every column of the model."""

    rows: Annotated[
        list[dict[str, StrictStr | StrictFloat | StrictInt | bool | None]], Field(min_length=1)
    ]


class PredictionOut(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    class_: str = Field(alias="class")
    probabilities: dict[str, float] = Field(
        description="One per class; they sum to 1. With more than two classes they are "
        "one-vs-rest: the scores of separate models, scaled to sum to 1. They rank the classes "
        "well but are less well calibrated than those of a softmax model. Under a loss that "
        "estimates no probabilities (model.loss) they are scores between 0 and 1."
    )


class PredictionsOut(BaseModel):
    model_config = examples(
        {
            "version": 84,
            "rare": 0,
            "unseen": 0,
            "predictions": [{"class": "yes", "probabilities": {"no": 0.397, "yes": 0.603}}],
        }
    )
    version: int = Field(description="The version of the model that answered.")
    rare: int = Field(
        description="Rows with a category that is known but too rare for a column of its own."
    )
    unseen: int = Field(
        description="Rows with a category that no training row holds, or fewer than "
        "preprocessing.min_rows do. The service does not say which, because so rare a category "
        "may identify one person."
    )
    predictions: list[PredictionOut]
