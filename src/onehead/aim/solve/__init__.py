"""From the equations to a solution and its certificate."""
