"""Models as folders, below MODELS_PATH: what is in them, checked before anything of it is used."""
