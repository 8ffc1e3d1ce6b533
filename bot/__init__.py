"""The process, and everything a person sees."""
