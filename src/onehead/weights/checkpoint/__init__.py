"""Reading of checkpoints: file formats, layouts of the query and key tensors, and sources such as folders or mappings.

Measurements of the weights do not belong here, but in `onehead.weights`.
"""
