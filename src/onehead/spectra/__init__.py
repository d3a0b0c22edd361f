"""Random matrices: target spectra blurred by a semicircle, their edges, transforms and integrals."""
