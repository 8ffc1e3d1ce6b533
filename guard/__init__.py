"""Meters money, judges it against caps, and decides."""
