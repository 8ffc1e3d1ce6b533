"""A file a card: pure values to chat-neutral messages; all wording lives here."""
