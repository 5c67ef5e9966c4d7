"""Where secret values come from, in which forms they appear, and how output is redacted."""
