"""The `autoqec` program; the verbs live in `autoqec.commands`."""

from autoqec.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
