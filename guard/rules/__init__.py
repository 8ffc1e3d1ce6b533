"""One file a rule; a rule only returns findings."""
