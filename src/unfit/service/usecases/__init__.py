"""What the service does, once for the API and the dashboard: plain calls in, records out."""
