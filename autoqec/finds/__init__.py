"""Finds in use: predecoders outside the loop that found them."""
