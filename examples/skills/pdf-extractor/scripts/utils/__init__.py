"""What the extractor's scripts share."""
