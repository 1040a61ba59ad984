-- What version 3 made of version 2, as it was released.
BEGIN;
DROP VIEW log;

-- Set while the head is not closed.
ALTER TABLE head ADD COLUMN live INTEGER;
ALTER TABLE head ADD COLUMN last INTEGER;
ALTER TABLE head ADD COLUMN claims TEXT;
UPDATE head SET
    live = CASE state WHEN 'closed' THEN NULL ELSE 1 END,
    last = (SELECT max(e.position) FROM entry e WHERE e.began = head.began),
    claims = (SELECT json_group_array(c.name) FROM claim c WHERE c.began = head.began HAVING count(*) > 0);

-- 'previous': position of the stream's entry before this one.
CREATE TABLE chained(
    position INTEGER PRIMARY KEY,
    began INTEGER NOT NULL,
    version INTEGER NOT NULL,
    previous INTEGER,
    id BLOB NOT NULL,
    at_wall_ms INTEGER NOT NULL,
    at_boot_ms INTEGER NOT NULL,
    at_boot BLOB NOT NULL,
    sum INTEGER NOT NULL,
    event TEXT NOT NULL
) STRICT;
INSERT INTO chained SELECT
    e.position, e.began, e.version,
    (SELECT p.position FROM entry p WHERE p.began = e.began AND p.version = e.version - 1),
    e.id, e.at_wall_ms, e.at_boot_ms, e.at_boot, e.sum, e.event
FROM entry e ORDER BY e.position;
DROP TABLE entry;
ALTER TABLE chained RENAME TO entry;

DROP INDEX claim_holder;
DROP INDEX head_live;
-- By what changes once, so that nothing in between costs a page here.
CREATE INDEX head_live ON head(began) WHERE live IS NOT NULL;

CREATE VIEW log AS
SELECT
    e.position,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.at_wall_ms / 1000.0, 'unixepoch') AS at,
    json_extract(e.event, '$.type') AS event,
    json_extract(a.event, '$.ask.handle') AS handle,
    json_extract(a.event, '$.ask.lineage.session.agent') AS agent,
    json_extract(a.event, '$.ask.lineage.session.session') AS session,
    json_extract(a.event, '$.ask.action.tool') AS tool,
    json_extract(e.event, '$.outcome.kind') AS outcome,
    json_extract(e.event, '$.outcome.cause') AS cause,
    json_extract(e.event, '$.outcome.surface') AS surface,
    json_extract(e.event, '$.outcome.by') AS who,
    json_extract(e.event, '$.outcome.message') AS message,
    h.state,
    h.stream,
    e.version,
    e.event AS body
FROM entry e
LEFT JOIN head h ON h.began = e.began
LEFT JOIN entry a ON a.position = e.began AND h.stream LIKE 'ask/%'
ORDER BY e.position;
PRAGMA user_version = 3;
COMMIT;
