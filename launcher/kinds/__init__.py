"""Pausing, resuming, killing and verifying work: one file a kind of workload."""
