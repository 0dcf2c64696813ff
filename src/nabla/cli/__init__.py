"""The command line: `nabla`."""
