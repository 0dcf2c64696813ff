"""How a change moves through a query: one law for each operator. Importing the room registers the laws."""

from nabla.calculus import rules as rules
