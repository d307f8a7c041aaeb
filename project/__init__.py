"""The runnable example: a Django project with the app installed, and two small domains."""
