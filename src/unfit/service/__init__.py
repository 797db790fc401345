"""A workspace over HTTP: predictions, erasures and audits, and a dashboard. `unfit serve`."""
