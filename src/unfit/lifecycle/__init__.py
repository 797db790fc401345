"""Decides: unlearn, evaluate, employ or retrain. No I/O, no clock of its own."""
