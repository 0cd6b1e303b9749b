"""Sources: durable, numbered lists of records with a cursor."""
