"""The equations of the head, one file per idea, numbered as in the theory pages."""
