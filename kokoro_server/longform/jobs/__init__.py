"""Long work that is asked for over HTTP: books and lists, kept in a folder until they are done and fetched."""
