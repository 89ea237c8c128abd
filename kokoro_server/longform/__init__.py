"""Work of minutes and hours: audiobooks, bulk synthesis, and the jobs that run them on a server."""
