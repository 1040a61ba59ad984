//! What the queue wants done, and what it is told about it.

use askd_wire::{Ask, BulkAnswer, Problem, SurfaceReport};

use crate::around::Place;
use crate::editor::Draft;

/// How the queue is set up.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub place: Place,
    /// Whether colours may be used; without them weight and words say the same.
    pub colour: bool,
}

/// Something for the host to do. The queue itself does no I/O.
#[derive(Debug, Clone)]
pub enum Action {
    /// Answer this ask (`POST /v1/asks/{id}/answer`); tell [`Reply::Answered`], [`Reply::Refused`] or [`Reply::Lost`].
    /// The host fills in its surface.
    Answer(BulkAnswer),
    /// Answer exactly these (`POST /v1/answers`); tell one reply for each.
    Bulk(Vec<BulkAnswer>),
    /// A typed command line (`POST /v1/permissions/command`), unparsed, for one session (`<agent>/<id>`) or for every
    /// one; tell [`Reply::Command`].
    Command { text: String, session: Option<String> },
    /// A kept late answer is taken back (`DELETE /v1/asks/{id}/late`); tell [`Reply::TakenBack`].
    TakeBack { id: String },
    /// What was shown, or could not be (`POST /v1/surfaces/{surface}/report`).
    Report(SurfaceReport),
    /// What became of this ask was missed: read it (`GET /v1/asks/{id}`); tell [`Reply::Seen`].
    Look { id: String },
    /// An ask came of a session that is not known here: read the sessions, [`set_sessions`](crate::Queue::set_sessions).
    ReadSessions,
    /// The daemon's state may be another now: read it (`GET /healthz`), [`handle_health`](crate::Queue::handle_health).
    ReadHealth,
    /// The person hid an ask here until then (ticking clock, milliseconds). No deadline moved.
    Snooze { id: String, until_ms: i64 },
    /// Show the person the terminal of the asking agent.
    JumpToPane { pane: String },
    /// New asks came: ring the bell, once. The text is safe, for a notification.
    Alert(String),
    /// How many asks wait, as the title of the window.
    Title(String),
    /// Draw the whole screen anew.
    Redraw,
    /// Asks want the keyboard: the host stops its own input line and hands its draft over ([`stash`](crate::Queue::stash)).
    TakeKeys,
    /// The keyboard is free again; the draft that was stashed comes back, cursor included.
    GiveKeys(Option<Draft>),
    /// The person leaves. Every ask stays open; an answer that has no reply yet is still on its way, and whoever ends now
    /// loses it.
    Quit,
}

/// What became of an action.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This answer settled it.
    Answered(Box<Ask>),
    /// It did not, and the daemon said why.
    Refused { id: String, problem: Box<Problem> },
    /// No reply came: whether the answer arrived is not known. The text says what was wrong.
    Lost { id: String, why: String },
    /// Output of a command line, or why there is none.
    Command(Result<String, String>),
    /// A late answer was taken back, or why not.
    TakenBack { id: String, failed: Option<String> },
    /// An ask as it now is; none: it is not known any more.
    Seen { id: String, ask: Option<Box<Ask>> },
    /// Anything else that a person should read.
    Said(String),
}

/// The way to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Events arrive.
    Up,
    /// Not now: what is on the screen may be old, and nothing can be answered. The text says why.
    Down(String),
}
