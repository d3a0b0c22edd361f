"""The store of a sweep: a SQLite file of points, a folder of arrays beside it, and the lock of its one writer."""
