"""Predecoders that come with the package: ENV/NAME is the folder of a round, with its card and provenance."""
