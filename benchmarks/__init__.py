"""One command, one table."""
