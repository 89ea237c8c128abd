"""Cartesia's speech, by HTTP and by WebSocket, and its list of voices, for clients that were written for it."""
