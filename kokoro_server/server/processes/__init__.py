"""One server of several processes: a supervisor, the engine process, API workers, and the G2P service."""
