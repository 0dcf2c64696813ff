"""Streams into the lake's tables and out of them: batches that count once, checkpoints, and changes as files."""
