"""Generated stubs; nothing is written by hand below this folder."""
