-- Schema 2. A plan and a level say which prompts they send: those of the search, fresh ones, or a load that
-- goes up and down; so one level may be there once per part. SQLite cannot widen a UNIQUE rule in place:
-- the tables are written anew.

CREATE TABLE load_plan_2 (
  id INTEGER PRIMARY KEY,
  study_id TEXT NOT NULL REFERENCES study (id),
  sitting_id INTEGER NOT NULL REFERENCES sitting (id),
  elapsed_s REAL NOT NULL,
  part TEXT NOT NULL,
  concurrency INTEGER NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (study_id, part, concurrency)
);
INSERT INTO load_plan_2 SELECT id, study_id, sitting_id, elapsed_s, 'search', concurrency, body FROM load_plan;

CREATE TABLE level_2 (
  id INTEGER PRIMARY KEY,
  launch_id INTEGER NOT NULL REFERENCES launch (id),
  elapsed_s REAL NOT NULL,
  part TEXT NOT NULL,
  concurrency INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  counters TEXT,
  foreign_cpu_share REAL,
  wall_s REAL NOT NULL,
  started_unix_s REAL NOT NULL,
  UNIQUE (launch_id, part, concurrency, attempt)
);
INSERT INTO level_2
SELECT id, launch_id, elapsed_s, 'search', concurrency, attempt, counters, foreign_cpu_share, wall_s,
  started_unix_s
FROM level;

CREATE TABLE request_2 (
  level_id INTEGER NOT NULL REFERENCES level_2 (id),
  position INTEGER NOT NULL,
  request_index INTEGER NOT NULL,
  due_at_s REAL NOT NULL,
  sent_at_s REAL NOT NULL,
  chunk_times_s BLOB NOT NULL,
  chunk_tokens BLOB NOT NULL,
  ended_at_s REAL NOT NULL,
  prompt_tokens INTEGER,
  output_tokens INTEGER,
  finish_reason TEXT NOT NULL,
  output_text TEXT NOT NULL,
  error TEXT NOT NULL,
  PRIMARY KEY (level_id, position)
) WITHOUT ROWID;
INSERT INTO request_2 SELECT * FROM request;

DROP TABLE request;
DROP TABLE level;
DROP TABLE load_plan;
ALTER TABLE load_plan_2 RENAME TO load_plan;
ALTER TABLE level_2 RENAME TO level;
ALTER TABLE request_2 RENAME TO request;

CREATE INDEX level_by_launch ON level (launch_id);
CREATE TRIGGER level_keep BEFORE UPDATE ON level BEGIN SELECT RAISE(ABORT, 'level is append-only'); END;
CREATE TRIGGER level_stay BEFORE DELETE ON level BEGIN SELECT RAISE(ABORT, 'level is append-only'); END;
CREATE TRIGGER request_keep BEFORE UPDATE ON request BEGIN SELECT RAISE(ABORT, 'request is append-only'); END;
CREATE TRIGGER request_stay BEFORE DELETE ON request BEGIN SELECT RAISE(ABORT, 'request is append-only'); END;
CREATE TRIGGER load_plan_keep BEFORE UPDATE ON load_plan BEGIN SELECT RAISE(ABORT, 'load_plan is append-only'); END;
CREATE TRIGGER load_plan_stay BEFORE DELETE ON load_plan BEGIN SELECT RAISE(ABORT, 'load_plan is append-only'); END;
