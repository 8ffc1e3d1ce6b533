"""A file a kind of workload: pause, resume, kill, verify."""
