"""Classical decoders to compare with. Adding one: a module with an `ENTRY`, and its name in `registry`."""
