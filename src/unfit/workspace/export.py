"""A model to take away: weights, the card that says what they mean, and how to use both."""

import io
import json
import zipfile

import numpy as np

from unfit.core.losses import Logistic, Loss
from unfit.workspace.model import ReleasedModel

_HOW = """\
A linear classifier made by unfit, version {version}.

model.safetensors  weights ({k}, {d}), float64; with two classes one row, else one row per class
card.json          classes, columns and the constants that turn a row into numbers
{certificate}
Encode a row as card.json's "encoding" says: numbers first, (value - shift) / scale with `fill` for
a missing one, then one column per category, 1 where it applies;{pairs}
divide by `norm`{clip}.{intercept}
Scores are weights @ row. Two classes: the second one if the score is above 0, {probability}.
More: the class with the largest score; probabilities are one-vs-rest, the same function of every
score, divided by their sum. They are not those of a softmax model.
A category without a column is encoded as zeros; "others" lists the known ones. A name that is in
neither was in no training row, or in fewer than `min_rows`: such names are not exported, so this
copy cannot tell which.
"constants" explains how each constant was obtained; fitted ones are rounded{earlier}.
This copy does not forget: whoever is erased later is still in it. Delete it when a newer one comes.
"""
_PAIRS = """
then, for each column of kind "sparse" or "hash", `width` columns: of a sparse one, value / scale in
the column that a pair's number names (from 0 on), of a hash, how many of the row's texts BLAKE2b
sends there: the first 8 bytes of the digest (digest size 8, no key) of the UTF-8 text, read as a
little-endian number, modulo `width`; a missing text is an empty one;"""
_CERTIFICATE = """\
certificate.json   what is claimed of model.safetensors, signed; `unfit verify` checks it
"""


def _probability(loss: Loss) -> str:
    """How the probability of the second class follows from the score."""
    if isinstance(loss, Logistic):
        return "with probability\n1 / (1 + exp(-score))"
    if type(loss).probability is Loss.probability:
        return (
            f"with\n(1 + score) / 2, kept between 0 and 1, in place of a probability: the loss "
            f"{loss.name}\nestimates none"
        )
    return f"with the probability that\nthe loss {loss.name} gives to it"


def weights_file(weights: np.ndarray) -> bytes:
    """The released weights as a file: what a certificate is about, by its SHA-256."""
    from safetensors.numpy import save

    return save({"weights": np.ascontiguousarray(weights, np.float64)})


def pack(model: ReleasedModel, certificate: bytes | None = None) -> bytes:
    """The model as a zip file: weights, card and instructions, and its certificate."""
    card = model.card
    intercept = " Append a 1 for the intercept." if card.fit_intercept else ""
    clip = " (rows longer than it are cut to length 1)" if card.encoding.clip else ""
    earlier = ", but not\nhere: an earlier version of unfit fitted them. Retrain"
    earlier = earlier if card.encoding.min_rows is None else ""
    k, d = model.weights.shape
    content = {
        "model.safetensors": weights_file(model.weights),
        "card.json": json.dumps(card.to_json() | {"version": model.version}, indent=1).encode(),
        "README.txt": _HOW.format(
            version=model.version,
            k=k,
            d=d,
            clip=clip,
            pairs=_PAIRS if card.encoding.bags else "",
            intercept=intercept,
            probability=_probability(card.loss),
            earlier=earlier,
            certificate="" if certificate is None else _CERTIFICATE,
        ).encode(),
    }
    if certificate is not None:
        content["certificate.json"] = certificate
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()
