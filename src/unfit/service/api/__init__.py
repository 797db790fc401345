"""The HTTP API: one module per resource."""

from unfit.service.api import audits, certificates, erasures, health, predictions, versions

ROUTERS = tuple(
    module.routes for module in (predictions, erasures, certificates, versions, audits, health)
)
