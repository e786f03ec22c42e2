"""Makes a release: checks the tree, builds every package of it, writes what is in them and their checksums."""
