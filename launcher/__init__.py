"""An experiment becomes objects in a cluster."""
