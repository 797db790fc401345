"""The dashboard: pages made here, with htmx and Vega-Lite to make them livelier where they run."""
