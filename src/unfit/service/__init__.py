"""A workspace over HTTP (`unfit serve`): predictions, erasures, audits and a dashboard."""
