"""The HTTP API: one module per resource."""

from unfit.service.api import audits, erasures, health, predictions, versions

ROUTERS = tuple(module.routes for module in (predictions, erasures, versions, audits, health))
