"""What clients bring: points, files, checks at the door, and data sets with a known truth."""
