"""Speech for voice agents whose text is still being written: what all the protocols for that share."""
