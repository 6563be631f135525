"""OpenAI chat-with-tools JSON lines, in and out."""
