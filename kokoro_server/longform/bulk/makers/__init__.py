"""Ways to make the clips of a bulk run: in this process, through a server, or on a Ray cluster."""
