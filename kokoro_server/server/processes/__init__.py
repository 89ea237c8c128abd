"""One server of several processes: a supervisor, the engine process, fronts, and the G2P service."""
