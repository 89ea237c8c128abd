"""The devices behind the queue: the threads that call their engines, and what each device learns and reports."""
