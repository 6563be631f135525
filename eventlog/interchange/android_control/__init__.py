"""AndroidControl episodes: screens and actions."""
