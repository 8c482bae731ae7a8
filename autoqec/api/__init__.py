"""What `import autoqec` offers, and what the commands do: compare, train, verify, run, read."""
