"""The web server of the explorer: requests, worker processes and training jobs.

Pictures and numbers do not belong here; the views compute them.
"""
