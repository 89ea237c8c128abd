"""Many texts to many files or shards: exactly one output for each line of the input, however often it is killed."""
