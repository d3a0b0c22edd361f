"""Measurements that were made once and whose results are in the documentation; see README.md in this folder."""
