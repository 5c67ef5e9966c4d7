"""Skills passed as text: written into folders, read, and removed with their last user."""
