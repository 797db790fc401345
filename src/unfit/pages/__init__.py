"""Self-contained HTML pages: no script, no request to anywhere. Facts in, text out."""
