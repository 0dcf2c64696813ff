"""Delta tables and the lake's log."""
