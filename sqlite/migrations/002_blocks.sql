-- Blocks by set: every block of one record under one model is one row
-- (DECISIONS 9). Changes: 6 block set written or dropped.

-- key as in vector. revision is the digest of the text that was split, policy
-- the splitter's version. spans are two bytes a block, big-endian: length in code
-- points << 3 | unembeddable << 2 | forced << 1 | begins a node; blocks cover the
-- text without a gap. bits are n sign codes of ⌈dims/8⌉ bytes. Its vectors are in
-- block_vec from id vectors on, in parts rows. cell is a copy of the record's.
CREATE TABLE block_set (
  key INTEGER PRIMARY KEY,
  cell INTEGER NOT NULL,
  policy INTEGER NOT NULL,
  revision BLOB NOT NULL,
  n INTEGER NOT NULL,
  unembeddable INTEGER NOT NULL,
  vectors INTEGER NOT NULL,
  parts INTEGER NOT NULL,
  spans BLOB NOT NULL,
  bits BLOB NOT NULL,
  model INTEGER GENERATED ALWAYS AS (key >> 41) VIRTUAL,
  kind INTEGER GENERATED ALWAYS AS (((key >> 40) & 1) + 1) VIRTUAL,
  parent INTEGER GENERATED ALWAYS AS (key & 0xFFFFFFFFFF) VIRTUAL
) STRICT;

-- In this index the sets of a cell stand by model, kind and parent.
CREATE INDEX block_cell ON block_set (cell);

-- value is int8, max(1, 1024/dims) blocks × dims; the last row of a set may be
-- shorter. Apart from the codes, because those are read by every scan and these
-- for the rows on top alone; not in one row, because large rows leave much of
-- their pages empty.
CREATE TABLE block_vec (
  id INTEGER PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

-- Of each cell and model: its sets, their blocks, and of these the unembeddable.
CREATE TABLE block_stats (
  cell INTEGER NOT NULL,
  model INTEGER NOT NULL,
  sets INTEGER NOT NULL DEFAULT 0,
  blocks INTEGER NOT NULL DEFAULT 0,
  unembeddable INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (cell, model)
) STRICT, WITHOUT ROWID;

-- How far a model's records were looked at: those up to done, and those after
-- backlog up to fresh. What was stored before building began lies below backlog.
CREATE TABLE block_mark (
  model INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  policy INTEGER NOT NULL,
  done INTEGER NOT NULL,
  backlog INTEGER NOT NULL,
  fresh INTEGER NOT NULL,
  PRIMARY KEY (model, kind)
) STRICT, WITHOUT ROWID;

-- Records that were looked at and have to be looked at again. key as in vector.
CREATE TABLE block_task (
  key INTEGER PRIMARY KEY,
  cell INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  not_before INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX block_task_cell ON block_task (cell);

-- A row per block, as the ledger shows it (BR-088, BR-099).
CREATE VIEW block AS
WITH RECURSIVE part (key, n, spans, bits, kind, parent, model, i, start) AS (
  SELECT key, n, hex(spans), bits, kind, parent, model, 0, 0 FROM block_set
  UNION ALL
  SELECT key, n, spans, bits, kind, parent, model, i + 1, start
    + ((instr('123456789ABCDEF', substr(spans, 4 * i + 1, 1)) << 12) | (instr('123456789ABCDEF', substr(spans, 4 * i + 2, 1)) << 8)
      | (instr('123456789ABCDEF', substr(spans, 4 * i + 3, 1)) << 4) | instr('123456789ABCDEF', substr(spans, 4 * i + 4, 1))) / 8
  FROM part WHERE i < n
)
SELECT kind, parent, i AS block, start AS start_offset,
  start + ((instr('123456789ABCDEF', substr(spans, 4 * i + 1, 1)) << 12) | (instr('123456789ABCDEF', substr(spans, 4 * i + 2, 1)) << 8)
    | (instr('123456789ABCDEF', substr(spans, 4 * i + 3, 1)) << 4) | instr('123456789ABCDEF', substr(spans, 4 * i + 4, 1))) / 8 AS end_offset,
  (instr('123456789ABCDEF', substr(spans, 4 * i + 4, 1)) >> 1) & 1 AS forced,
  substr(bits, i * (length(bits) / n) + 1, length(bits) / n) AS bits,
  model
FROM part WHERE i < n;

CREATE VIEW block_vector AS
SELECT kind, parent, block, b.model, substr(v.value, block % max(1, 1024 / k.dims) * k.dims + 1, k.dims) AS value
FROM block b JOIN block_set s USING (kind, parent, model) JOIN model k ON k.id = b.model
  JOIN block_vec v ON v.id = s.vectors + block / max(1, 1024 / k.dims);

CREATE TRIGGER block_set_insert AFTER INSERT ON block_set BEGIN
  INSERT INTO block_stats (cell, model, sets, blocks, unembeddable) VALUES (new.cell, new.model, 1, new.n, new.unembeddable)
    ON CONFLICT DO UPDATE SET sets = sets + 1, blocks = blocks + excluded.blocks, unembeddable = unembeddable + excluded.unembeddable;
  INSERT INTO index_changes (op, kind, parent, new_cell, model, lineage) VALUES (6, new.kind, new.parent, new.cell, new.model, random());
END;

CREATE TRIGGER block_set_delete AFTER DELETE ON block_set BEGIN
  DELETE FROM block_vec WHERE id >= old.vectors AND id < old.vectors + old.parts;
  UPDATE block_stats SET sets = sets - 1, blocks = blocks - old.n, unembeddable = unembeddable - old.unembeddable
    WHERE cell = old.cell AND model = old.model;
  INSERT INTO index_changes (op, kind, parent, old_cell, model, lineage) VALUES (6, old.kind, old.parent, old.cell, old.model, random());
END;

-- The vectors are never filtered, so that they have no copy of the cell.
CREATE TRIGGER block_set_retag AFTER UPDATE OF cell ON block_set WHEN old.cell <> new.cell BEGIN
  UPDATE block_stats SET sets = sets - 1, blocks = blocks - old.n, unembeddable = unembeddable - old.unembeddable
    WHERE cell = old.cell AND model = old.model;
  INSERT INTO block_stats (cell, model, sets, blocks, unembeddable) VALUES (new.cell, new.model, 1, new.n, new.unembeddable)
    ON CONFLICT DO UPDATE SET sets = sets + 1, blocks = blocks + excluded.blocks, unembeddable = unembeddable + excluded.unembeddable;
END;

-- Ids ascend, so that a new record lies beyond the marks and waits there. One that
-- was given an id below them is told of.
CREATE TRIGGER memory_blocks_insert AFTER INSERT ON memory BEGIN
  INSERT INTO block_task (key, cell) SELECT (model << 41) | (1 << 40) | new.id, new.cell FROM block_mark
    WHERE kind = 2 AND (new.id <= done OR new.id > backlog AND new.id <= fresh);
END;

CREATE TRIGGER episode_blocks_insert AFTER INSERT ON episode BEGIN
  INSERT INTO block_task (key, cell) SELECT (model << 41) | new.id, new.cell FROM block_mark
    WHERE kind = 1 AND (new.id <= done OR new.id > backlog AND new.id <= fresh);
END;

CREATE TRIGGER memory_blocks_text AFTER UPDATE OF content ON memory WHEN old.content IS NOT new.content BEGIN
  DELETE FROM block_set WHERE key IN (SELECT (id << 41) | (1 << 40) | new.id FROM model);
  INSERT INTO block_task (key, cell) SELECT (model << 41) | (1 << 40) | new.id, new.cell FROM block_mark
    WHERE kind = 2 AND (new.id <= done OR new.id > backlog AND new.id <= fresh)
    ON CONFLICT DO UPDATE SET attempts = 0, not_before = 0, error = '';
END;

CREATE TRIGGER episode_blocks_text AFTER UPDATE OF summary ON episode WHEN old.summary IS NOT new.summary BEGIN
  DELETE FROM block_set WHERE key IN (SELECT (id << 41) | new.id FROM model);
  INSERT INTO block_task (key, cell) SELECT (model << 41) | new.id, new.cell FROM block_mark
    WHERE kind = 1 AND (new.id <= done OR new.id > backlog AND new.id <= fresh)
    ON CONFLICT DO UPDATE SET attempts = 0, not_before = 0, error = '';
END;

CREATE TRIGGER memory_blocks_retag AFTER UPDATE OF cell ON memory WHEN old.cell <> new.cell BEGIN
  UPDATE block_set SET cell = new.cell WHERE key IN (SELECT (id << 41) | (1 << 40) | new.id FROM model);
  UPDATE block_task SET cell = new.cell WHERE key IN (SELECT (id << 41) | (1 << 40) | new.id FROM model);
END;

CREATE TRIGGER episode_blocks_retag AFTER UPDATE OF cell ON episode WHEN old.cell <> new.cell BEGIN
  UPDATE block_set SET cell = new.cell WHERE key IN (SELECT (id << 41) | new.id FROM model);
  UPDATE block_task SET cell = new.cell WHERE key IN (SELECT (id << 41) | new.id FROM model);
END;

CREATE TRIGGER memory_blocks_leave BEFORE DELETE ON memory BEGIN
  DELETE FROM block_set WHERE key IN (SELECT (id << 41) | (1 << 40) | old.id FROM model);
  DELETE FROM block_task WHERE key IN (SELECT (id << 41) | (1 << 40) | old.id FROM model);
END;

CREATE TRIGGER episode_blocks_leave BEFORE DELETE ON episode BEGIN
  DELETE FROM block_set WHERE key IN (SELECT (id << 41) | old.id FROM model);
  DELETE FROM block_task WHERE key IN (SELECT (id << 41) | old.id FROM model);
END;

CREATE TRIGGER block_cell_delete AFTER DELETE ON cell BEGIN
  DELETE FROM block_stats WHERE cell = old.id;
END;
