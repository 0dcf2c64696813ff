"""Nested relations in partitioned normal form: tables with `array<struct>` columns, and views over them."""
