"""What every process needs of Python and the machine: event loop, threads, sockets, child processes, files."""
