"""SQLite's logic tests (sqllogictest) with every query as a view: queries and answers that others wrote."""
