"""The G2P service, and everything that may load GPL code: the speech server imports nothing from this folder."""
