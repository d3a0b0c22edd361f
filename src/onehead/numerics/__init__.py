"""Fixed points, batched Newton proximal steps and Gaussian averages. No physics in here."""
