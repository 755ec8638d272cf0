"""Applications as they are declared and checked, and the queries registered since."""
