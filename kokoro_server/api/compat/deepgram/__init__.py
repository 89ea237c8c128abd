"""Deepgram's `speak`, by HTTP and by WebSocket, for clients that were written for it."""
