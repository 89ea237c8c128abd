"""Settings: their names, their values, and where they are read from."""
