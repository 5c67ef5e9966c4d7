"""Hot reload: what changes below the roots is served as soon as it is whole."""
