"""What happens while nothing is spoken: work for later batches, and in the end the model is unloaded."""
