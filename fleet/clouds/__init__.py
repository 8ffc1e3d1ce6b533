"""A file a provider."""
