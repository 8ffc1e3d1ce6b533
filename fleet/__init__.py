"""What all packages share, and the only door to the outside: values, ports, adapters, database, journal."""
