"""What all commands share: options and settings, errors, the screen, and what is written."""
