"""What operators see: logs, metrics, conditions, traces."""
