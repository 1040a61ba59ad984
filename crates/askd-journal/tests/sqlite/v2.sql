-- What version 2 adds to version 1.
CREATE INDEX head_closed ON head(closed_wall_ms) WHERE state = 'closed';

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
LEFT JOIN entry a ON a.began = e.began AND a.version = 1 AND h.stream LIKE 'ask/%'
ORDER BY e.position;
PRAGMA user_version = 2;
