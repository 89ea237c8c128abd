"""Speech for voice agents whose text is still being written: the base of every protocol for them."""
