"""Tables of others: what each kind of source tells of its versions and changes, behind one port."""
