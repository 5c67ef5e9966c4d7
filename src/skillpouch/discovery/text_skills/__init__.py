"""Skills that come as text: put into folders, read, and removed with their last user."""
