"""What a lake holds: names, definitions, and what depends on what."""
