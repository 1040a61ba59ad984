//! Old streams go, in bounded steps, and the file gets smaller by them.

use rusqlite::{OptionalExtension as _, params};

use super::error::At as _;
use super::read::View;
use super::write::{Transaction, failed, index_all};
use crate::contract::JournalError;

/// Free pages are kept for the entries to come; only what is more than this many, and more than a quarter of the file,
/// is given back to the disk, so many pages at a time.
const SPARE_PAGES: i64 = 1_024;

/// What may be pruned, oldest first.
pub(super) const OLD: &str = "SELECT began FROM head WHERE state = 'closed' AND closed_wall_ms < ?1
    ORDER BY closed_wall_ms, began LIMIT ?2";

const RELEASE: &str = "DELETE FROM claim WHERE name = ?1 AND began = ?2";

pub(super) fn prune(view: &View, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
    // By the tables alone, from which then nothing is missing.
    index_all(view)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let transaction = Transaction::begin(view)?;
    let old: Vec<i64> = view
        .statement(OLD)?
        .query_map([closed_before_wall_ms, limit], |row| row.get(0))
        .and_then(Iterator::collect)
        .at(view.path())?;
    if old.is_empty() {
        return Ok(0);
    }
    let last = view.last()?;
    view.statement("UPDATE mark SET position = ?1 WHERE name = 'pruned'")?
        .execute([last.cast_signed()])
        .at(view.path())?;
    for began in old.iter().copied() {
        forget(view, began)?;
    }
    transaction.commit().map_err(failed)?;
    give_back(view)?;
    Ok(old.len())
}

/// A stream, its entries from the newest back, and its claims.
fn forget(view: &View, began: i64) -> Result<(), JournalError> {
    let (last, claims): (Option<i64>, Option<String>) = view
        .statement("DELETE FROM head WHERE began = ?1 RETURNING last, claims")?
        .query_row([began], |row| Ok((row.get(0)?, row.get(1)?)))
        .at(view.path())?;
    for name in view.names(claims.as_deref())? {
        view.statement(RELEASE)?.execute(params![name, began]).at(view.path())?;
    }
    let mut next = last;
    while let Some(position) = next {
        // One that another stream's head leads to by mistake stays; `began` is in the sum of what is read.
        next = view
            .statement("DELETE FROM entry WHERE position = ?1 AND began = ?2 RETURNING previous")?
            .query_row([position, began], |row| row.get(0))
            .optional()
            .at(view.path())?
            .flatten();
    }
    Ok(())
}

/// Shrinks the file when far more of it is free than the coming entries will need.
fn give_back(view: &View) -> Result<(), JournalError> {
    let number = |pragma: &str| {
        view.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).at(view.path())
    };
    if number("freelist_count")? <= SPARE_PAGES.max(number("page_count")? / 4) {
        return Ok(());
    }
    // A row comes per page, and the work is done by asking for it.
    let mut statement = view.statement(&format!("PRAGMA incremental_vacuum({SPARE_PAGES})"))?;
    let mut rows = statement.query([]).at(view.path())?;
    while rows.next().at(view.path())?.is_some() {}
    Ok(())
}
