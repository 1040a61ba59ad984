//! One ask between the agent, the client and askd.

use std::time::Duration;

use askd_wire::Decision;

use super::super::ask::Choosable;
use super::super::message::Id;

/// Where an ask comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A request of the agent, by its own id.
    Request(Id),
    /// One that the agent keeps to itself, by the id of its server.
    Hidden { id: String, id_at_client: Id },
}

/// What kind of request the client answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Permission,
    /// An approval that is asked for as an elicitation: its answers are `accept`, `decline` and `cancel`.
    Elicitation,
}

impl Form {
    /// The result of a request whose turn is over.
    pub(super) fn cancelled(self) -> &'static str {
        match self {
            Self::Permission => r#"{"outcome":{"outcome":"cancelled"}}"#,
            Self::Elicitation => r#"{"action":"cancel"}"#,
        }
    }
}

/// The client's dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialog {
    /// Not shown yet.
    Waiting,
    Open,
    /// Answered, dismissed, failed, or the client is gone.
    Closed,
}

/// What askd knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Askd {
    Raising,
    Raised,
    /// Not to be had: the client's answer counts alone.
    Off,
}

#[derive(Debug)]
pub(super) enum State {
    Open,
    /// The client answered, and the journal does not know yet.
    Deciding {
        answer: ClientAnswer,
        since: Duration,
        sent: bool,
    },
    Done(Done),
}

#[derive(Debug, Clone)]
pub(super) struct ClientAnswer {
    /// The client's own bytes.
    pub(super) line: Vec<u8>,
    pub(super) option: String,
    /// None: an option of a kind that nobody knows.
    pub(super) decision: Option<Decision>,
}

/// How the client left.
#[derive(Debug)]
pub(super) enum Left {
    /// By this line of its own: it dismissed the ask, or could not show it.
    Said(Vec<u8>),
    /// It may not answer. What it said reaches nobody.
    Barred,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Its agent was told an allow or a deny. `unsure`: the journal may have another answer.
    Answered {
        decision: Option<Decision>,
        unsure: bool,
    },
    Ended,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) origin: Origin,
    pub(super) form: Form,
    /// The session that asks, and its root.
    pub(super) session: String,
    pub(super) root: String,
    /// Where the client sees it.
    pub(super) shown_on: String,
    pub(super) shown_call: String,
    /// The call as askd knows it.
    pub(super) call: String,
    pub(super) work: Option<String>,
    pub(super) title: String,
    pub(super) options: Vec<Choosable>,
    pub(super) dialog: Dialog,
    pub(super) askd: Askd,
    pub(super) state: State,
    /// The client left without an answer that counts.
    pub(super) left: Option<Left>,
    /// It stays open elsewhere, and that was said; so many looks since then saw nobody.
    pub(super) elsewhere: Option<u8>,
    /// The client left it to others, who may go away: when it is looked again.
    pub(super) look_at: Option<Duration>,
    /// The client left, and askd is away since then.
    pub(super) lost_since: Option<Duration>,
    /// It could not show the ask; else it dismissed it.
    pub(super) failed: bool,
    /// The client was told that its call runs.
    pub(super) runs: bool,
    /// The client was sent the request.
    pub(super) shown: bool,
    /// It responded to it, in whatever way.
    pub(super) responded: bool,
    /// A yes for the agent's own server that is not known to be there.
    pub(super) on_its_way: bool,
    /// The dialog was shown and is not told to askd yet.
    pub(super) tell_shown: bool,
    /// The line that shows it, for asks that wait for the journal first: without and with what the timer would do.
    pub(super) show: Option<Box<dyn Show>>,
}

/// Makes the lines of a dialog once its timed answer is known.
pub(super) trait Show: std::fmt::Debug + Send {
    fn lines(&self, timed: Option<&str>) -> Vec<Vec<u8>>;
}

impl Slot {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// What its agent was told.
    pub(super) fn decision(&self) -> Option<Decision> {
        match &self.state {
            State::Done(Done::Answered { decision, .. }) => *decision,
            State::Open | State::Deciding { .. } | State::Done(Done::Ended) => None,
        }
    }

    /// Its agent was told something that askd has no word for.
    pub(super) fn has_unknown_answer(&self) -> bool {
        matches!(self.state, State::Done(Done::Answered { decision: None, .. }))
    }

    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.origin, Origin::Hidden { .. })
    }

    /// The client left without its person having said anything that counts.
    pub(super) fn is_undecided(&self) -> bool {
        self.failed || matches!(self.left, Some(Left::Barred))
    }

    /// Somebody else than the client can answer it.
    pub(super) fn can_be_answered_elsewhere(&self) -> bool {
        !self.is_done() && self.askd != Askd::Off
    }

    pub(super) fn deciding_since(&self) -> Option<Duration> {
        match &self.state {
            State::Deciding { since, .. } => Some(*since),
            State::Open | State::Done(_) => None,
        }
    }

    pub(super) fn dialog_gone(&mut self) {
        self.dialog = Dialog::Closed;
    }

    /// Id of the dialog's request, as JSON text.
    pub(super) fn dialog_id(&self) -> String {
        match &self.origin {
            Origin::Request(id) | Origin::Hidden { id_at_client: id, .. } => id.text().to_owned(),
        }
    }
}
