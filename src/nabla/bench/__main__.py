"""`make bench` and `python -m nabla.bench`: the same as `nabla bench`."""

from nabla.cli.bench import app

if __name__ == "__main__":
    app()
