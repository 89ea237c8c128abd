"""The server on several machines, by Ray Serve."""
