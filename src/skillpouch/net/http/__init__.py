"""The http client of tools: what is sent, where it may go, how much of an answer is kept."""
