//! Brings the tables of heads and claims up to what the entries say.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use rusqlite::params;

use super::error::At as _;
use super::read::View;
use super::recent::{Changes, Recent, Row, Stored};
use crate::contract::{JournalError, Position};
use crate::text;

const INSERT_HEAD: &str =
    "INSERT INTO head(began, stream, version, state, root, due_wall_ms, closed_wall_ms, sum, last, claims, live)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const UPDATE_HEAD: &str =
    "UPDATE head SET version = ?2, state = ?3, root = ?4, due_wall_ms = ?5, closed_wall_ms = ?6, sum = ?7,
    last = ?8, claims = ?9 WHERE began = ?1";
/// For heads that are closed by it, or live again. Setting a column writes its indices, also where nothing changes.
const UPDATE_LIVE: &str = "UPDATE head SET live = ?2 WHERE began = ?1";
const TAKE: &str =
    "INSERT INTO claim(name, began) VALUES (?1, ?2) ON CONFLICT(name) DO UPDATE SET began = excluded.began";
const RELEASE: &str = "DELETE FROM claim WHERE name = ?1";
const INDEXED: &str = "UPDATE mark SET position = ?1 WHERE name = 'indexed'";

/// Writes all that is recent, and what this commit adds to it, into the open transaction. Everything up to `last` is in
/// the tables afterwards.
pub(super) fn write(
    view: &View,
    recent: &Recent,
    changes: &Changes,
    last: Position,
) -> Result<(), JournalError> {
    let mut heads: BTreeMap<&StreamId, &Row> = recent.heads.iter().collect();
    heads.extend(&changes.heads);
    // In the order in which they began, which is the order of the table.
    let mut rows: Vec<_> = heads.iter().map(|(stream, row)| (*stream, *row)).collect();
    rows.sort_by_key(|(_, row)| row.began);
    for (stream, row) in rows {
        write_head(view, stream, row)?;
    }
    let mut claims: BTreeMap<&str, Option<&StreamId>> =
        recent.claims.iter().map(|(name, holder)| (name.as_str(), holder.as_ref())).collect();
    claims.extend(changes.claims.iter().map(|(name, holder)| (name.as_str(), holder.as_ref())));
    for (name, holder) in claims {
        let Some(stream) = holder else {
            view.statement(RELEASE)?.execute([name]).at(view.path())?;
            continue;
        };
        let began = match heads.get(stream) {
            Some(row) => Some(row.began),
            None => view.stored_row(stream)?.map(|row| row.began),
        };
        let began =
            began.ok_or_else(|| view.corrupt(format!("{name} is held by {stream}, which is gone")))?;
        view.statement(TAKE)?.execute(params![name, began.cast_signed()]).at(view.path())?;
    }
    view.statement(INDEXED)?.execute([last.cast_signed()]).at(view.path())?;
    Ok(())
}

fn write_head(view: &View, stream: &StreamId, row: &Row) -> Result<(), JournalError> {
    let path = view.path();
    let (name, head) = (stream.to_string(), &row.head);
    let (state, sum) = (text::state_name(head.state), text::head_sum(&name, row.version, row.began, head));
    let (began, version, last) = (row.began.cast_signed(), row.version.cast_signed(), row.last.cast_signed());
    let (root, due, closed, claims) =
        (&head.root, head.due_wall_ms, head.closed_wall_ms, text::written_names(&row.claims)?);
    let live = row.is_live().then_some(1);
    match row.stored {
        None => view
            .statement(INSERT_HEAD)?
            .execute(params![began, name, version, state, root, due, closed, sum, last, claims, live]),
        Some(_) => view
            .statement(UPDATE_HEAD)?
            .execute(params![began, version, state, root, due, closed, sum, last, claims]),
    }
    .at(path)?;
    if row.stored.is_some_and(|stored| stored != Stored { live: row.is_live() }) {
        view.statement(UPDATE_LIVE)?.execute(params![began, live]).at(path)?;
    }
    Ok(())
}
