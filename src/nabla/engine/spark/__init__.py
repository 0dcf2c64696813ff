"""Spark as the engine uses it: sessions, frames, metrics, rounds."""
