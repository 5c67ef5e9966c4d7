"""Where secret values come from, how they may be written, and how they leave no trace in output."""
