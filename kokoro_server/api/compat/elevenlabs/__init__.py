"""ElevenLabs' text-to-speech: its REST API, lists of voices and models, and both of its WebSockets."""
