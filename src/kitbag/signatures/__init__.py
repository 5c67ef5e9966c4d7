"""What a script says about itself, read without running it."""
