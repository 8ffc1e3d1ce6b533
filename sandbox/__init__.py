"""Stand-ins for the outside world that speak the real wire protocols. They import nothing of ours."""
