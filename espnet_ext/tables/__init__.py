"""A paper's table: what to run for it, what the paper says, what came out here."""
