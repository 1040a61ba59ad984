//! The tables, and the way from each version of them to the next. Forward only.

use rusqlite::Connection;

use super::error::At as _;
use super::files::Place;
use crate::contract::JournalError;

/// `askd` in ASCII, in the file's header: tells a journal from another program's database.
const APPLICATION: i64 = 0x6173_6b64;

/// What makes version N + 1 out of version N, at index N. A released step never changes.
const STEPS: [&str; 4] = [BASE, READABLE, LEAN, SELF_CONTAINED];

const KNOWN: i64 = STEPS.len() as i64;

/// A stream is known inside by the position of its first entry: small, unique, in the order of beginning.
const BASE: &str = "
    CREATE TABLE head(
        began INTEGER PRIMARY KEY,
        stream TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        state TEXT NOT NULL CHECK(state IN ('open', 'unfinished', 'closed')),
        root TEXT,
        due_wall_ms INTEGER,
        closed_wall_ms INTEGER,
        sum INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX head_live ON head(due_wall_ms) WHERE state <> 'closed';

    CREATE TABLE entry(
        position INTEGER PRIMARY KEY,
        began INTEGER NOT NULL,
        version INTEGER NOT NULL,
        id BLOB NOT NULL UNIQUE,
        at_wall_ms INTEGER NOT NULL,
        at_boot_ms INTEGER NOT NULL,
        at_boot BLOB NOT NULL,
        sum INTEGER NOT NULL,
        event TEXT NOT NULL,
        UNIQUE(began, version)
    ) STRICT;

    CREATE TABLE claim(
        name TEXT PRIMARY KEY,
        began INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX claim_holder ON claim(began);

    -- 'pruned': the newest position when entries were last pruned, so that positions are never given twice.
    CREATE TABLE mark(
        name TEXT PRIMARY KEY,
        position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO mark VALUES ('pruned', 0);
";

/// An index for pruning, and a view for people with a sqlite3 shell. Functions only that SQLite had before 3.38.
const READABLE: &str = "
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
";

/// Fewer pages per commit. Each index is a page that every commit writes, so streams are chains of entries now, from the
/// newest back, and a head knows the claims that its stream holds, in place of three indices and a reverse look-up.
const LEAN: &str = "
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
";

/// An entry says by itself which stream it is of and what its stream's head and claims are after it, so that a commit
/// writes entries alone; the tables of heads and claims follow in bulk, as far as the mark 'indexed' says.
const SELF_CONTAINED: &str = "
    DROP VIEW log;

    -- 'after': head and claims behind this entry, on the last entry of each append; none on entries from before.
    CREATE TABLE whole(
        position INTEGER PRIMARY KEY,
        began INTEGER NOT NULL,
        version INTEGER NOT NULL,
        previous INTEGER,
        id BLOB NOT NULL,
        at_wall_ms INTEGER NOT NULL,
        at_boot_ms INTEGER NOT NULL,
        at_boot BLOB NOT NULL,
        sum INTEGER NOT NULL,
        stream TEXT NOT NULL,
        after TEXT,
        event TEXT NOT NULL
    ) STRICT;
    INSERT INTO whole SELECT
        e.position, e.began, e.version, e.previous, e.id, e.at_wall_ms, e.at_boot_ms, e.at_boot, e.sum,
        (SELECT h.stream FROM head h WHERE h.began = e.began), NULL, e.event
    FROM entry e ORDER BY e.position;
    DROP TABLE entry;
    ALTER TABLE whole RENAME TO entry;

    -- 'indexed': the newest position that the tables of heads and claims know of.
    INSERT INTO mark SELECT 'indexed', max(
        coalesce((SELECT max(position) FROM entry), 0),
        coalesce((SELECT position FROM mark WHERE name = 'pruned'), 0)
    );

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
        coalesce(json_extract(e.after, '$.state'), h.state) AS state,
        e.stream,
        e.version,
        e.event AS body
    FROM entry e
    LEFT JOIN head h ON h.began = e.began
    LEFT JOIN entry a ON a.position = e.began AND e.stream LIKE 'ask/%'
    ORDER BY e.position;
";

/// Fills an empty file with the newest schema.
pub(super) fn create(connection: &Connection, place: &Place) -> Result<(), JournalError> {
    // Must come before the first table: it decides how pages are kept.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").at(place.path())?;
    connection.pragma_update(None, "application_id", APPLICATION).at(place.path())?;
    steps_from(0, connection, place)
}

/// Refuses other programs' databases and newer schemas, before anything is written.
pub(super) fn check_identity(connection: &Connection, place: &Place) -> Result<(), JournalError> {
    if number(connection, "application_id", place)? != APPLICATION {
        return Err(place.corrupt("it is a database of another program"));
    }
    match number(connection, "user_version", place)? {
        found if found > KNOWN => Err(JournalError::Newer { path: place.shown(), found, known: KNOWN }),
        found if found < 1 => Err(place.corrupt(&format!("its schema version is {found}"))),
        _ => Ok(()),
    }
}

/// Brings an older journal to the newest schema, after a backup.
pub(super) fn migrate(connection: &Connection, place: &Place) -> Result<(), JournalError> {
    let found = number(connection, "user_version", place)?;
    if found == KNOWN {
        return Ok(());
    }
    let (new, backup) = place.begin_backup(found)?;
    // The target exists and is empty, which SQLite accepts, so it was private from its first moment.
    let target = new.path().to_str().ok_or_else(|| {
        JournalError::Other(format!("{}: cannot be backed up: its path is not UTF-8", place.shown()))
    })?;
    connection.execute("VACUUM INTO ?1", [target]).at(place.path())?;
    place.finish(&new, &backup)?;
    steps_from(found, connection, place)
}

fn steps_from(version: i64, connection: &Connection, place: &Place) -> Result<(), JournalError> {
    for (number, step) in (1..).zip(STEPS).skip_while(|(number, _)| *number <= version) {
        // An error leaves the transaction open, and the connection is closed then, which rolls it back.
        connection
            .execute_batch(&format!("BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;"))
            .at(place.path())?;
    }
    Ok(())
}

fn number(connection: &Connection, pragma: &str, place: &Place) -> Result<i64, JournalError> {
    connection.pragma_query_value(None, pragma, |row| row.get(0)).at(place.path())
}
