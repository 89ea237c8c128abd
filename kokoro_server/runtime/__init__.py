"""Python and the machine, for every process: event loop, threads, sockets, child processes, files."""
