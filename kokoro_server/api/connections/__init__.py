"""What an open connection may take: how many streams there are at once, how long one may go unread."""
