-- Kinds: 1 episode, 2 memory. Times are UTC milliseconds, offsets are minutes.
-- Changes: 1 insert, 2 text, 3 retag, 4 delete, 5 embedded.

CREATE TABLE instance (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- pool is shared by the cells of one agent and project.
CREATE TABLE cell (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  project TEXT NOT NULL,
  channel TEXT NOT NULL,
  pool INTEGER NOT NULL,
  UNIQUE (agent, project, channel)
) STRICT;

-- Of each cell: with model 0 all records and their bounds, with another model the
-- records that have a vector of it.
CREATE TABLE cell_stats (
  cell INTEGER NOT NULL,
  model INTEGER NOT NULL,
  memories INTEGER NOT NULL DEFAULT 0,
  episodes INTEGER NOT NULL DEFAULT 0,
  min_time INTEGER,
  max_time INTEGER,
  newest_episode INTEGER,
  PRIMARY KEY (cell, model)
) STRICT, WITHOUT ROWID;

-- digest is the first 16 bytes of the SHA-256 of content.
CREATE TABLE memory (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  cell INTEGER NOT NULL,
  pool INTEGER NOT NULL,
  digest BLOB NOT NULL,
  message_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  superseded_by INTEGER,
  locked INTEGER NOT NULL,
  time INTEGER,
  time_offset INTEGER NOT NULL,
  created INTEGER NOT NULL,
  created_offset INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  updated_offset INTEGER NOT NULL,
  source_type TEXT NOT NULL,
  source_id TEXT NOT NULL,
  source_name TEXT NOT NULL,
  metadata TEXT,
  content TEXT NOT NULL
) STRICT;

CREATE INDEX memory_cell ON memory (cell);
CREATE INDEX memory_time ON memory (cell, time) WHERE time IS NOT NULL;
CREATE INDEX memory_digest ON memory (cell, digest);
CREATE INDEX memory_superseded ON memory (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE UNIQUE INDEX memory_message ON memory (pool, message_id, version) WHERE message_id <> '';

-- keywords are separated by line feeds.
CREATE TABLE episode (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  cell INTEGER NOT NULL,
  digest BLOB NOT NULL,
  resolved INTEGER NOT NULL,
  locked INTEGER NOT NULL,
  start INTEGER,
  start_offset INTEGER NOT NULL,
  finish INTEGER,
  finish_offset INTEGER NOT NULL,
  created INTEGER NOT NULL,
  created_offset INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  updated_offset INTEGER NOT NULL,
  keywords TEXT NOT NULL,
  summary TEXT NOT NULL
) STRICT;

CREATE INDEX episode_cell ON episode (cell);
CREATE INDEX episode_time ON episode (cell, start) WHERE start IS NOT NULL;
CREATE INDEX episode_created ON episode (cell, created);
CREATE INDEX episode_digest ON episode (cell, digest);

CREATE TABLE profile (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  user_id TEXT NOT NULL,
  content TEXT NOT NULL,
  updated INTEGER NOT NULL,
  updated_offset INTEGER NOT NULL,
  UNIQUE (agent, user_id)
) STRICT;

CREATE TABLE recall_count (
  kind INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  count INTEGER NOT NULL,
  last INTEGER NOT NULL,
  last_offset INTEGER NOT NULL,
  PRIMARY KEY (kind, parent)
) STRICT, WITHOUT ROWID;

-- probes are little-endian float32, dims for each probe.
CREATE TABLE model (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  backend TEXT NOT NULL,
  name TEXT NOT NULL,
  dims INTEGER NOT NULL,
  prompt_policy TEXT NOT NULL,
  probes BLOB NOT NULL,
  state TEXT NOT NULL,
  created INTEGER NOT NULL,
  created_offset INTEGER NOT NULL
) STRICT;

CREATE TABLE agent_model (
  agent TEXT PRIMARY KEY,
  model INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per record and model. key orders the rows by model, kind and parent;
-- value is little-endian float32.
CREATE TABLE vector (
  key INTEGER PRIMARY KEY,
  value BLOB NOT NULL,
  model INTEGER GENERATED ALWAYS AS (key >> 41) VIRTUAL,
  kind INTEGER GENERATED ALWAYS AS (((key >> 40) & 1) + 1) VIRTUAL,
  parent INTEGER GENERATED ALWAYS AS (key & 0xFFFFFFFFFF) VIRTUAL
) STRICT;

-- state: 0 pending, 1 unembeddable (terminal until the text changes).
CREATE TABLE queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  model INTEGER NOT NULL,
  state INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  not_before INTEGER NOT NULL DEFAULT 0,
  leased_until INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT '',
  UNIQUE (kind, parent, model)
) STRICT;

CREATE TABLE calibration (
  agent TEXT NOT NULL,
  model INTEGER NOT NULL,
  signal TEXT NOT NULL,
  dims INTEGER NOT NULL,
  method TEXT NOT NULL,
  precision TEXT NOT NULL,
  threshold REAL NOT NULL,
  scoring_version INTEGER NOT NULL,
  positives INTEGER NOT NULL,
  negatives INTEGER NOT NULL,
  created INTEGER NOT NULL,
  created_offset INTEGER NOT NULL,
  PRIMARY KEY (agent, model, signal)
) STRICT, WITHOUT ROWID;

CREATE TABLE index_changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  op INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  old_cell INTEGER,
  new_cell INTEGER,
  model INTEGER,
  lineage INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE memory_fts USING fts5 (
  content, content = 'memory', content_rowid = 'id', tokenize = 'trigram'
);
INSERT INTO memory_fts (memory_fts, rank) VALUES ('secure-delete', 1);

CREATE VIRTUAL TABLE episode_fts USING fts5 (
  summary, keywords, content = 'episode', content_rowid = 'id', tokenize = 'trigram'
);
INSERT INTO episode_fts (episode_fts, rank) VALUES ('secure-delete', 1);

-- Records up to upto are in the full-text index. The writer adds newer ones in
-- batches; triggers keep those that are in.
CREATE TABLE fts_mark (
  kind INTEGER PRIMARY KEY,
  upto INTEGER NOT NULL
) STRICT;
INSERT INTO fts_mark (kind, upto) VALUES (1, 0), (2, 0);

CREATE TRIGGER cell_insert AFTER INSERT ON cell BEGIN
  INSERT INTO cell_stats (cell, model) VALUES (new.id, 0);
END;

CREATE TRIGGER cell_delete AFTER DELETE ON cell BEGIN
  DELETE FROM cell_stats WHERE cell = old.id;
END;

CREATE TRIGGER memory_insert AFTER INSERT ON memory BEGIN
  UPDATE cell_stats SET
    memories = memories + 1,
    min_time = min(coalesce(min_time, new.time), coalesce(new.time, min_time)),
    max_time = max(coalesce(max_time, new.time), coalesce(new.time, max_time))
  WHERE cell = new.cell AND model = 0;
  INSERT INTO index_changes (op, kind, parent, new_cell, lineage) VALUES (1, 2, new.id, new.cell, random());
END;

CREATE TRIGGER memory_text AFTER UPDATE OF content ON memory WHEN old.content IS NOT new.content BEGIN
  INSERT INTO memory_fts (memory_fts, rowid, content) SELECT 'delete', old.id, old.content
    WHERE old.id <= (SELECT upto FROM fts_mark WHERE kind = 2);
  INSERT INTO memory_fts (rowid, content) SELECT new.id, new.content
    WHERE new.id <= (SELECT upto FROM fts_mark WHERE kind = 2);
  INSERT OR IGNORE INTO queue (kind, parent, model)
    SELECT 2, new.id, id FROM model
    WHERE EXISTS (SELECT 1 FROM vector WHERE key = (model.id << 41) | (1 << 40) | new.id);
  UPDATE queue SET state = 0, attempts = 0, not_before = 0, leased_until = 0, error = ''
    WHERE kind = 2 AND parent = new.id;
  DELETE FROM vector WHERE key IN (SELECT (id << 41) | (1 << 40) | new.id FROM model);
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (2, 2, new.id, new.cell, new.cell, random());
END;

CREATE TRIGGER memory_retag AFTER UPDATE OF cell ON memory WHEN old.cell <> new.cell BEGIN
  UPDATE cell_stats SET memories = memories - 1 WHERE cell = old.cell AND model = 0;
  UPDATE cell_stats SET memories = memories + 1 WHERE cell = new.cell AND model = 0;
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL))
  WHERE cell IN (old.cell, new.cell) AND model = 0;
  UPDATE cell_stats SET memories = memories - 1 WHERE cell = old.cell AND model > 0
    AND EXISTS (SELECT 1 FROM vector WHERE key = (cell_stats.model << 41) | (1 << 40) | new.id);
  INSERT INTO cell_stats (cell, model, memories)
    SELECT new.cell, id, 1 FROM model
    WHERE EXISTS (SELECT 1 FROM vector WHERE key = (model.id << 41) | (1 << 40) | new.id)
    ON CONFLICT DO UPDATE SET memories = memories + 1;
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (3, 2, new.id, old.cell, new.cell, random());
END;

CREATE TRIGGER memory_redate AFTER UPDATE OF time ON memory WHEN old.time IS NOT new.time BEGIN
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL))
  WHERE cell = new.cell AND model = 0;
END;

-- A record's words have a date and neighbours: an index reads it again when they
-- change, as it does for its text.
CREATE TRIGGER memory_place AFTER UPDATE OF source_id, time, time_offset ON memory
WHEN old.content IS new.content AND old.cell = new.cell
  AND (old.source_id IS NOT new.source_id OR old.time IS NOT new.time OR old.time_offset IS NOT new.time_offset) BEGIN
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (2, 2, new.id, new.cell, new.cell, random());
END;

CREATE TRIGGER memory_leave BEFORE DELETE ON memory BEGIN
  INSERT INTO memory_fts (memory_fts, rowid, content) SELECT 'delete', old.id, old.content
    WHERE old.id <= (SELECT upto FROM fts_mark WHERE kind = 2);
  DELETE FROM vector WHERE key IN (SELECT (id << 41) | (1 << 40) | old.id FROM model);
  DELETE FROM queue WHERE kind = 2 AND parent = old.id;
  DELETE FROM recall_count WHERE kind = 2 AND parent = old.id;
END;

CREATE TRIGGER memory_delete AFTER DELETE ON memory BEGIN
  UPDATE memory SET superseded_by = old.superseded_by WHERE superseded_by = old.id;
  UPDATE cell_stats SET memories = memories - 1 WHERE cell = old.cell AND model = 0;
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL))
  WHERE cell = old.cell AND model = 0 AND (min_time = old.time OR max_time = old.time);
  INSERT INTO index_changes (op, kind, parent, old_cell, lineage) VALUES (4, 2, old.id, old.cell, random());
END;

CREATE TRIGGER episode_insert AFTER INSERT ON episode BEGIN
  UPDATE cell_stats SET
    episodes = episodes + 1,
    min_time = min(coalesce(min_time, new.start), coalesce(new.start, min_time)),
    max_time = max(coalesce(max_time, new.start), coalesce(new.start, max_time)),
    newest_episode = max(coalesce(newest_episode, new.created), new.created)
  WHERE cell = new.cell AND model = 0;
  INSERT INTO index_changes (op, kind, parent, new_cell, lineage) VALUES (1, 1, new.id, new.cell, random());
END;

CREATE TRIGGER episode_text AFTER UPDATE OF summary ON episode WHEN old.summary IS NOT new.summary BEGIN
  INSERT OR IGNORE INTO queue (kind, parent, model)
    SELECT 1, new.id, id FROM model
    WHERE EXISTS (SELECT 1 FROM vector WHERE key = (model.id << 41) | new.id);
  UPDATE queue SET state = 0, attempts = 0, not_before = 0, leased_until = 0, error = ''
    WHERE kind = 1 AND parent = new.id;
  DELETE FROM vector WHERE key IN (SELECT (id << 41) | new.id FROM model);
END;

CREATE TRIGGER episode_words AFTER UPDATE OF summary, keywords ON episode
WHEN old.summary IS NOT new.summary OR old.keywords IS NOT new.keywords BEGIN
  INSERT INTO episode_fts (episode_fts, rowid, summary, keywords) SELECT 'delete', old.id, old.summary, old.keywords
    WHERE old.id <= (SELECT upto FROM fts_mark WHERE kind = 1);
  INSERT INTO episode_fts (rowid, summary, keywords) SELECT new.id, new.summary, new.keywords
    WHERE new.id <= (SELECT upto FROM fts_mark WHERE kind = 1);
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (2, 1, new.id, new.cell, new.cell, random());
END;

CREATE TRIGGER episode_retag AFTER UPDATE OF cell ON episode WHEN old.cell <> new.cell BEGIN
  UPDATE cell_stats SET episodes = episodes - 1 WHERE cell = old.cell AND model = 0;
  UPDATE cell_stats SET episodes = episodes + 1 WHERE cell = new.cell AND model = 0;
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    newest_episode = (SELECT max(created) FROM episode WHERE episode.cell = cell_stats.cell)
  WHERE cell IN (old.cell, new.cell) AND model = 0;
  UPDATE cell_stats SET episodes = episodes - 1 WHERE cell = old.cell AND model > 0
    AND EXISTS (SELECT 1 FROM vector WHERE key = (cell_stats.model << 41) | new.id);
  INSERT INTO cell_stats (cell, model, episodes)
    SELECT new.cell, id, 1 FROM model
    WHERE EXISTS (SELECT 1 FROM vector WHERE key = (model.id << 41) | new.id)
    ON CONFLICT DO UPDATE SET episodes = episodes + 1;
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (3, 1, new.id, old.cell, new.cell, random());
END;

CREATE TRIGGER episode_redate AFTER UPDATE OF start ON episode WHEN old.start IS NOT new.start BEGIN
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL))
  WHERE cell = new.cell AND model = 0;
END;

CREATE TRIGGER episode_place AFTER UPDATE OF start, start_offset ON episode
WHEN old.summary IS new.summary AND old.keywords IS new.keywords AND old.cell = new.cell
  AND (old.start IS NOT new.start OR old.start_offset IS NOT new.start_offset) BEGIN
  INSERT INTO index_changes (op, kind, parent, old_cell, new_cell, lineage) VALUES (2, 1, new.id, new.cell, new.cell, random());
END;

CREATE TRIGGER episode_leave BEFORE DELETE ON episode BEGIN
  INSERT INTO episode_fts (episode_fts, rowid, summary, keywords) SELECT 'delete', old.id, old.summary, old.keywords
    WHERE old.id <= (SELECT upto FROM fts_mark WHERE kind = 1);
  DELETE FROM vector WHERE key IN (SELECT (id << 41) | old.id FROM model);
  DELETE FROM queue WHERE kind = 1 AND parent = old.id;
  DELETE FROM recall_count WHERE kind = 1 AND parent = old.id;
END;

CREATE TRIGGER episode_delete AFTER DELETE ON episode BEGIN
  UPDATE cell_stats SET episodes = episodes - 1 WHERE cell = old.cell AND model = 0;
  UPDATE cell_stats SET
    min_time = (SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    max_time = (SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell_stats.cell AND time IS NOT NULL
      UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell_stats.cell AND start IS NOT NULL)),
    newest_episode = (SELECT max(created) FROM episode WHERE episode.cell = cell_stats.cell)
  WHERE cell = old.cell AND model = 0;
  INSERT INTO index_changes (op, kind, parent, old_cell, lineage) VALUES (4, 1, old.id, old.cell, random());
END;

CREATE TRIGGER vector_insert AFTER INSERT ON vector BEGIN
  INSERT INTO cell_stats (cell, model, memories, episodes)
    SELECT cell, new.model, 1, 0 FROM memory WHERE new.kind = 2 AND id = new.parent
    UNION ALL
    SELECT cell, new.model, 0, 1 FROM episode WHERE new.kind = 1 AND id = new.parent
    ON CONFLICT DO UPDATE SET memories = memories + excluded.memories, episodes = episodes + excluded.episodes;
  INSERT INTO index_changes (op, kind, parent, new_cell, model, lineage)
    VALUES (5, new.kind, new.parent, CASE new.kind
      WHEN 2 THEN (SELECT cell FROM memory WHERE id = new.parent)
      ELSE (SELECT cell FROM episode WHERE id = new.parent) END, new.model, random());
END;

CREATE TRIGGER vector_update AFTER UPDATE OF value ON vector WHEN old.value IS NOT new.value BEGIN
  INSERT INTO index_changes (op, kind, parent, new_cell, model, lineage)
    VALUES (5, new.kind, new.parent, CASE new.kind
      WHEN 2 THEN (SELECT cell FROM memory WHERE id = new.parent)
      ELSE (SELECT cell FROM episode WHERE id = new.parent) END, new.model, random());
END;

CREATE TRIGGER vector_delete AFTER DELETE ON vector BEGIN
  UPDATE cell_stats SET memories = memories - 1
    WHERE old.kind = 2 AND model = old.model AND cell = (SELECT cell FROM memory WHERE id = old.parent);
  UPDATE cell_stats SET episodes = episodes - 1
    WHERE old.kind = 1 AND model = old.model AND cell = (SELECT cell FROM episode WHERE id = old.parent);
END;
