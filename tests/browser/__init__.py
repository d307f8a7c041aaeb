"""The admin in a real browser: the system's Chromium, without a screen."""
