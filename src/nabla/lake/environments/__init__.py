"""Environments: views of a changed project beside those of the lake, over the same tables."""
