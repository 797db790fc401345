"""Decides: unlearn, evaluate, update the model or retrain it. No files, no clock of its own."""
