"""Many clips in one answer, as `kokoro-server bulk` asks for them."""
