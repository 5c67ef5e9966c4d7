"""What a skill folder declares: frontmatter, tools.json, scripts/ and its manifest."""
