"""Kubernetes: raw watch cache, objects, leases."""
