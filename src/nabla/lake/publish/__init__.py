"""Tables and views as tables of a catalog of the session, for everybody who uses that."""
