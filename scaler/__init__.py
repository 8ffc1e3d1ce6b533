"""The machines that exactly fit."""
