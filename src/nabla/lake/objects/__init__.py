"""The objects of a lake: their names, their definitions, and the graph of views and their sources."""
