"""API workers and the engine process: rows go over a Unix socket, audio comes back beside it in shared memory."""
