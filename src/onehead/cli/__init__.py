"""The command line: commands parse flags, call the library and render its results; they compute nothing."""
