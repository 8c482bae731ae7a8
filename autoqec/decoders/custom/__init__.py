"""Tier 2: custom message functions, aggregations and heads, from source text.

The lint is a first answer to the author, not the boundary: this code only ever runs inside the sandboxed
worker.
"""
