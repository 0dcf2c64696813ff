"""Queries answered from views: which plans over views give the rows of a plan over tables."""
