//! Cheap checks at open: enough to refuse a file that is no journal or has lost a part, fast enough for any start.

use std::fs::File;
use std::io::Read as _;

use rusqlite::Connection;

use super::error::At as _;
use super::files::Place;
use crate::contract::JournalError;

/// Length of SQLite's header.
const HEADER: usize = 100;
/// Every SQLite file begins with this.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Up to this size the whole file is checked at open, which takes about a tenth of a second at most. Larger files are
/// checked where they are read: by the sums of entries and heads, and by SQLite.
const CHECKED_WHOLE: i64 = 32 << 20;

/// Looks at the header. Must come before SQLite opens the file: closing it later would drop SQLite's locks.
pub(super) fn check_start(place: &Place) -> Result<(), JournalError> {
    let mut start = Vec::new();
    let read = File::open(place.path()).and_then(|mut file| {
        file.by_ref().take(HEADER as u64).read_to_end(&mut start)?;
        file.metadata()
    });
    let len = match read {
        Ok(found) => found.len(),
        Err(e) => return Err(JournalError::Other(format!("{}: cannot be read: {e}", place.shown()))),
    };
    if start.is_empty() {
        return Err(place.corrupt("the file is empty; move it away to begin anew"));
    }
    if start.len() < HEADER || !start.starts_with(MAGIC) {
        return Err(place.corrupt("it is not a database"));
    }
    // A log that was not copied into the file yet may know better than the header.
    if !place.has_log() && len < expected_len(&start) {
        return Err(place.corrupt(&format!("{len} bytes are left of {}", expected_len(&start))));
    }
    Ok(())
}

/// Length of the file by its header, or 0 when that part of the header is not in use.
fn expected_len(header: &[u8]) -> u64 {
    let number = |at: usize, len: usize| {
        header.iter().skip(at).take(len).fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let page = match number(16, 2) {
        1 => 65_536,
        size => size,
    };
    // The count is valid when it was written together with the counter of changes.
    if number(24, 4) == number(92, 4) { page * number(28, 4) } else { 0 }
}

/// Looks at the pages.
pub(super) fn check_pages(connection: &Connection, place: &Place) -> Result<(), JournalError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (pages, page) = (number("page_count").at(place.path())?, number("page_size").at(place.path())?);
    if pages.saturating_mul(page) > CHECKED_WHOLE {
        return Ok(());
    }
    let found: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).at(place.path())?;
    if found == "ok" { Ok(()) } else { Err(place.corrupt(&found)) }
}
