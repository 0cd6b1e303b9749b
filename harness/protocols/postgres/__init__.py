"""PostgreSQL's protocol, as far as the wire needs it to see what is committed."""
