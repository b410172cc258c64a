"""Engine dialects: text in, values out. No input or output here."""
