"""A file a verb: its slash form and its terminal form side by side."""
