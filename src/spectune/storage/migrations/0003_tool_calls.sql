-- Schema 3. A request keeps the calls of tools that its answer made: JSON, a list of [name, arguments], in order.
-- NULL: they were not kept (measured before this schema).

ALTER TABLE request ADD COLUMN tool_calls TEXT;
