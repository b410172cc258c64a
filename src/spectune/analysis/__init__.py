"""ANSWERS: history to winners, crossovers and a recommendation. Pure."""
