"""Scenarios: the format, the runner, the shipped stories."""
