"""Audio files with chapter marks, tags and a cover, each format in its own way. The same input makes the same file."""
