"""The protocol on real samples of finite size, beside the theory."""
