"""PostgreSQL's protocol, as far as it says what is committed."""
