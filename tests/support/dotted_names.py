"""Objects by their dotted names."""

from importlib import import_module


def resolve(name):
    """Return the object that a dotted name stands for: the longest module in it, then attributes."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def missing_names(names):
    """Names that stand for nothing."""
    missing = []
    for name in names:
        try:
            resolve(name)
        except (ModuleNotFoundError, AttributeError):
            missing.append(name)
    return missing
