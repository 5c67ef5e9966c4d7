"""Hot reload: a skill that is edited is served as soon as it is complete."""
