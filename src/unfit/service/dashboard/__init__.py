"""The dashboard: one module per page, with what its forms do. Every page works without scripts."""

from unfit.service.dashboard import (
    audits,
    certificates,
    erasures,
    overview,
    settings,
    sign_in,
    versions,
)

ROUTERS = tuple(
    module.routes
    for module in (sign_in, overview, erasures, audits, certificates, versions, settings)
)
