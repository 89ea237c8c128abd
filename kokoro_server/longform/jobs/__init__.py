"""Jobs: books and lists that HTTP clients ask for, made in the background and kept until they are fetched."""
