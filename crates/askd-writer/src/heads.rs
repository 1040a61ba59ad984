//! Heads and claims that go with the events of a batch.

use askd_core::id::StreamId;
use askd_core::state::AskState;
use askd_core::{AskId, Delivery, Event, Hash256, State};
use askd_journal::{Batch, Claim, Head, HeadState};

pub(crate) fn of_stream(state: &State, stream: &StreamId, wall_ms: i64) -> Head {
    match stream {
        StreamId::Ask(id) => match state.ask(*id) {
            Some(ask) => of_ask(state, ask, wall_ms),
            None => closed(None, wall_ms),
        },
        StreamId::Session(key) => {
            let root = Some(state.root_of(key).to_string());
            match state.session(key) {
                Some(session) if !session.ended => {
                    Head { state: HeadState::Open, root, due_wall_ms: None, closed_wall_ms: None }
                }
                _ => closed(root, wall_ms),
            }
        }
        // Read by the surface itself when it comes, and old when nothing was added for long.
        StreamId::Surface(_) => closed(None, wall_ms),
        StreamId::Daemon(_) => {
            Head { state: HeadState::Open, root: None, due_wall_ms: None, closed_wall_ms: None }
        }
    }
}

pub(crate) fn of_ask(state: &State, ask: &AskState, wall_ms: i64) -> Head {
    let root = Some(state.root_of(ask.session()).to_string());
    if ask.is_finished() {
        return closed(root, wall_ms);
    }
    let due_wall_ms = ask
        .is_open()
        .then_some(ask.ask.policy.deadline_ms)
        .flatten()
        .map(|ms| ask.ask.asked_at.wall_plus(ms));
    let state = if ask.is_open() { HeadState::Open } else { HeadState::Unfinished };
    Head { state, root, due_wall_ms, closed_wall_ms: None }
}

fn closed(root: Option<String>, wall_ms: i64) -> Head {
    Head { state: HeadState::Closed, root, due_wall_ms: None, closed_wall_ms: Some(wall_ms) }
}

/// Claim on the identity that re-attaches, so that two daemons cannot raise one call twice. An agent that was started
/// anew asks anew.
fn key_claim(ask: &AskState) -> String {
    let requester = &ask.ask.requester;
    let instance = requester.instance.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = format!("{} {} {instance} {}", requester.token, ask.ask.digest, ask.ask.key);
    format!("key/{}", Hash256::of(text.as_bytes()))
}

/// Claims that one event takes or gives up, given the ask as it is after the batch. `shared`: other daemons write to the
/// journal too; else every ask that its key leads to is in memory, and nobody else could raise it.
pub(crate) fn claims(id: AskId, event: &Event, ask: Option<&AskState>, shared: bool, batch: &mut Batch) {
    let Some(ask) = ask else { return };
    let holder = StreamId::Ask(id);
    if let Event::Asked { ask: asked } = event {
        batch.claim(Claim { name: format!("handle/{}", asked.handle), holder: holder.clone() });
    }
    if !shared {
        return;
    }
    let key = Claim { name: key_claim(ask), holder };
    if matches!(event, Event::Asked { .. }) {
        batch.claim(key.clone());
    }
    let reattachable = ask.is_open() || ask.delivery == Delivery::Pending;
    if !reattachable {
        batch.give_up(key);
    }
}
