"""Many cells: which are meant, in which lanes they run, how far they have got, and what a check or a corpus makes of them."""
