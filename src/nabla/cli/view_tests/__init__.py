"""Tests of a project's views: given rows, expected rows, and the difference if there is one."""
