"""Systems of any toolkit compared on one reference: the project's test for claims, and their errors side by side."""
