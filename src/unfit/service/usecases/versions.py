"""Versions of the model, and the active one as a file."""

from dataclasses import dataclass

from unfit.service.context import ServiceContext
from unfit.service.usecases.errors import NotFound
from unfit.store.records import Version
from unfit.workspace.export import pack
from unfit.workspace.model import ReleasedModel

MAX_NUMBER = 2**31 - 1  # of a version; the databases store no larger one


@dataclass(frozen=True)
class Export:
    """A zip archive of a model."""

    name: str
    content: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Disposition": f'attachment; filename="{self.name}"'}


def find(context: ServiceContext, number: int) -> Version:
    found = context.store.versions.find(number=number) if number <= MAX_NUMBER else []
    if not found:
        raise NotFound(f"there is no version {number}")
    return found[0]


def export(context: ServiceContext, model: ReleasedModel) -> Export:
    """With its certificate, if it has one."""
    certificate = context.workspace.certificates.to_export(model.version)
    return Export(f"unfit-{model.version}.zip", pack(model, certificate))
