"""Stated errors against true ones: ``python -m checks.calibration [--count 400] [--seed 0] [--store FILE] [--workers 1] [--write]``.

Random problems of the soak are solved twice: as users do, and with rules that are finer and have other nodes (the truth, as far as
this can tell). Every number that states an error is compared. An honest error is exceeded three times in less than one case of a
hundred; a useful one is not a hundred times too large either. ``--write`` puts the table into docs/assets/calibration.md.
"""
