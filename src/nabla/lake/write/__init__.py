"""Changing tables: transactions, the commit that makes them true, previews and undo."""
