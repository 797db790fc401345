"""The request and response bodies of the API, one module per resource."""

from unfit.service.api.schemas.base import Problem
from unfit.service.api.schemas.certificates import (
    CertificateOut,
    CertificatesOut,
    GrowthIn,
    GrowthOut,
    KeysOut,
    LogOut,
    ProofOut,
)
from unfit.service.api.schemas.erasures import (
    ErasureIn,
    ErasureOut,
    ErasuresOut,
    ItemOut,
    LookupIn,
    LookupOut,
    NearOut,
)
from unfit.service.api.schemas.jobs import AuditIn, AuditOut, AuditsOut, JobOut, JobsOut
from unfit.service.api.schemas.predictions import PredictionOut, PredictionsIn, PredictionsOut
from unfit.service.api.schemas.status import HealthOut, ReadyOut, StatusOut
from unfit.service.api.schemas.versions import (
    ColumnOut,
    DecisionOut,
    DecisionsOut,
    ModelOut,
    VersionOut,
    VersionsOut,
)

__all__ = [
    "AuditIn",
    "AuditOut",
    "AuditsOut",
    "CertificateOut",
    "CertificatesOut",
    "ColumnOut",
    "DecisionOut",
    "DecisionsOut",
    "ErasureIn",
    "ErasureOut",
    "ErasuresOut",
    "GrowthIn",
    "GrowthOut",
    "HealthOut",
    "ItemOut",
    "JobOut",
    "JobsOut",
    "KeysOut",
    "LogOut",
    "LookupIn",
    "LookupOut",
    "ModelOut",
    "NearOut",
    "PredictionOut",
    "PredictionsIn",
    "PredictionsOut",
    "Problem",
    "ProofOut",
    "ReadyOut",
    "StatusOut",
    "VersionOut",
    "VersionsOut",
]
