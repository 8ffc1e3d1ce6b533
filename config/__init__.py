"""Typed settings with file and line for every value, people and roles, shipped manifests."""
