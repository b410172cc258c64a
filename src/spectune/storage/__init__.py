"""Appends raw facts to SQLite and reads them back."""
