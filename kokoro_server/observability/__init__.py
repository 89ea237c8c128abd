"""Logs, metrics, conditions and traces, for operators."""
