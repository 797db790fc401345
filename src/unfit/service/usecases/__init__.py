"""What the service does, once for the API and the dashboard: plain values in, records out.

A use case knows the service's context and nothing of HTTP; what is missing or not yet possible is
an error of `usecases.errors`, which `problems` turns into a status.
"""
