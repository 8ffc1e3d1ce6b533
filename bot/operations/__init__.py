"""What a person can ask for, chat-neutral, a file a family."""
