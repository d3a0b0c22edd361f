"""Heads of finite size, trained for real, beside the theory."""
