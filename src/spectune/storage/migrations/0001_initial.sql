-- Schema 1. Facts are appended and never changed: triggers refuse UPDATE and DELETE.
-- Seconds are REAL. `elapsed_s` counts from the start of the sitting (monotonic clock).
-- `body` is JSON of the domain value of the same name. Chunk columns are packed little-endian arrays.

CREATE TABLE study (
  id TEXT PRIMARY KEY,
  created_unix_s REAL NOT NULL,
  body TEXT NOT NULL
);

-- One stretch of work on a study, by one process.
CREATE TABLE sitting (
  id INTEGER PRIMARY KEY,
  study_id TEXT NOT NULL REFERENCES study (id),
  started_unix_s REAL NOT NULL,
  spectune_version TEXT NOT NULL
);

-- Absent where the process died. `finished` is the planner's reason to stop, '' after an interruption.
CREATE TABLE sitting_end (
  sitting_id INTEGER PRIMARY KEY REFERENCES sitting (id),
  elapsed_s REAL NOT NULL,
  finished TEXT NOT NULL
);

CREATE TABLE load_plan (
  id INTEGER PRIMARY KEY,
  study_id TEXT NOT NULL REFERENCES study (id),
  sitting_id INTEGER NOT NULL REFERENCES sitting (id),
  elapsed_s REAL NOT NULL,
  concurrency INTEGER NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (study_id, concurrency)
);

-- One start of a server. A trial that was interrupted has several.
CREATE TABLE launch (
  id INTEGER PRIMARY KEY,
  study_id TEXT NOT NULL REFERENCES study (id),
  sitting_id INTEGER NOT NULL REFERENCES sitting (id),
  elapsed_s REAL NOT NULL,
  trial_id INTEGER NOT NULL,
  body TEXT NOT NULL
);

-- The launch's server gave a real generation and said what it runs.
CREATE TABLE ready (
  launch_id INTEGER PRIMARY KEY REFERENCES launch (id),
  elapsed_s REAL NOT NULL,
  launch_s REAL NOT NULL,
  body TEXT NOT NULL
);

CREATE TABLE level (
  id INTEGER PRIMARY KEY,
  launch_id INTEGER NOT NULL REFERENCES launch (id),
  elapsed_s REAL NOT NULL,
  concurrency INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  counters TEXT,
  foreign_cpu_share REAL,
  wall_s REAL NOT NULL,
  started_unix_s REAL NOT NULL,
  UNIQUE (launch_id, concurrency, attempt)
);

CREATE TABLE request (
  level_id INTEGER NOT NULL REFERENCES level (id),
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

-- How a trial ended; its levels are those of `level`.
CREATE TABLE outcome (
  id INTEGER PRIMARY KEY,
  study_id TEXT NOT NULL REFERENCES study (id),
  sitting_id INTEGER NOT NULL REFERENCES sitting (id),
  elapsed_s REAL NOT NULL,
  trial_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (study_id, trial_id)
);

CREATE INDEX launch_by_study ON launch (study_id, trial_id);
CREATE INDEX level_by_launch ON level (launch_id);

CREATE TRIGGER study_keep BEFORE UPDATE ON study BEGIN SELECT RAISE(ABORT, 'study is append-only'); END;
CREATE TRIGGER study_stay BEFORE DELETE ON study BEGIN SELECT RAISE(ABORT, 'study is append-only'); END;
CREATE TRIGGER level_keep BEFORE UPDATE ON level BEGIN SELECT RAISE(ABORT, 'level is append-only'); END;
CREATE TRIGGER level_stay BEFORE DELETE ON level BEGIN SELECT RAISE(ABORT, 'level is append-only'); END;
CREATE TRIGGER request_keep BEFORE UPDATE ON request BEGIN SELECT RAISE(ABORT, 'request is append-only'); END;
CREATE TRIGGER request_stay BEFORE DELETE ON request BEGIN SELECT RAISE(ABORT, 'request is append-only'); END;
CREATE TRIGGER outcome_keep BEFORE UPDATE ON outcome BEGIN SELECT RAISE(ABORT, 'outcome is append-only'); END;
CREATE TRIGGER outcome_stay BEFORE DELETE ON outcome BEGIN SELECT RAISE(ABORT, 'outcome is append-only'); END;
CREATE TRIGGER launch_keep BEFORE UPDATE ON launch BEGIN SELECT RAISE(ABORT, 'launch is append-only'); END;
CREATE TRIGGER launch_stay BEFORE DELETE ON launch BEGIN SELECT RAISE(ABORT, 'launch is append-only'); END;
CREATE TRIGGER load_plan_keep BEFORE UPDATE ON load_plan BEGIN SELECT RAISE(ABORT, 'load_plan is append-only'); END;
CREATE TRIGGER load_plan_stay BEFORE DELETE ON load_plan BEGIN SELECT RAISE(ABORT, 'load_plan is append-only'); END;
