//! A host's own hook against the people whom askd asks: the first decision wins, and only a decision.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use askd_wire::{Ask, AskState, Code, Decision, Delivery, OutcomeKind, RaiseAsk, Verdict};

use crate::error::Unavailable;
use crate::port::AskPort;
use crate::stop::stop;
use crate::withdraw::until_taken;

/// What won.
#[derive(Debug)]
pub enum Raced<D> {
    /// The hook decided first; the ask is over, with that in its record.
    Hook(D),
    /// The ask is over: a decision, unless its verdict says otherwise and the hook had none either.
    Ask(Box<Ask>),
}

/// Tells a hook that it is not needed any more.
#[derive(Debug, Clone, Default)]
pub struct HookStop(Arc<AtomicBool>);

impl HookStop {
    /// The ask was decided; whatever the hook says now is not heard.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A hook's decision, whatever a host has besides in its own type for it.
pub trait Decides {
    fn decision(&self) -> Decision;
}

impl Decides for Decision {
    fn decision(&self) -> Decision {
        *self
    }
}

/// A decision with the host's own words for it.
impl<T> Decides for (Decision, T) {
    fn decision(&self) -> Decision {
        self.0
    }
}

/// Runs `hook` on a thread of its own beside the ask. The first *decision* wins: the hook's `Ok(Some(…))` within `limit`,
/// or an allow or deny of the ask. A hook that gives an error, panics, takes longer or has no opinion (`Ok(None)`) is no
/// decision, and the people's answer is awaited. The loser is told: the ask ends for people and its record says what the
/// hook decided ([`AskPort::decided_by_hook`]), or the hook's [`HookStop`] says so.
///
/// Two decisions at the same moment are one: what is recorded for the ask stands, so that what the log says is what ran.
/// A daemon that is away at that moment cannot be asked: the hook's decision counts then, and is recorded when the daemon
/// is there again; an answer that was given meanwhile is corrected then.
///
/// An ask that cannot be had leaves the hook alone in the race; when that has no decision either, the ask's fault is
/// given, and what it means is for the host to decide.
pub fn race<D, E>(
    port: &mut dyn AskPort,
    raise: &RaiseAsk,
    limit: Duration,
    hook: impl FnOnce(&HookStop) -> Result<Option<D>, E> + Send + 'static,
) -> Result<Raced<D>, Unavailable>
where
    D: Decides + Send + 'static,
{
    let until = Instant::now() + limit;
    let (stopper, mut stopped) = stop()?;
    let (decided, decision) = channel();
    let hook_stop = HookStop::default();
    let (told, ends) = (hook_stop.clone(), stopper.clone());
    std::thread::Builder::new().name("hook".to_owned()).spawn(move || {
        // A panic is a fault of the hook like any other.
        let said = catch_unwind(AssertUnwindSafe(|| hook(&told)));
        if let Ok(Ok(Some(said))) = said
            && Instant::now() <= until
            && decided.send(said).is_ok()
        {
            ends.stop();
        }
    })?;
    // Known by its id it can be looked at; one that cannot be raised now is tried again below.
    let id = port.raise(raise).ok().map(|raised| raised.ask.id);
    let asked = port.ask_watched(raise, &mut stopped);
    let raced = match asked {
        Ok(ask) if is_decided(&ask) => Ok(Raced::Ask(Box::new(ask))),
        // Nobody decides it any more: the hook alone is left, and the record is to say what it decided.
        Ok(ask) => match wait(&decision, until) {
            Some(decision) => Ok(take_back(port, raise, Some(ask.id), decision)),
            None => Ok(Raced::Ask(Box::new(ask))),
        },
        Err(Unavailable::Abandoned) => match decision.recv() {
            Ok(decision) => Ok(take_back(port, raise, id, decision)),
            Err(_) => Err(Unavailable::Abandoned),
        },
        // It may have been raised all the same, and a reply was lost.
        Err(why) => wait(&decision, until).map(|decision| take_back(port, raise, id, decision)).ok_or(why),
    };
    hook_stop.0.store(true, Ordering::Release);
    drop(stopper);
    raced
}

/// The hook's decision, if there is one in time.
fn wait<D>(decision: &Receiver<D>, until: Instant) -> Option<D> {
    // None when it ended without one, or takes too long.
    decision.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

/// The hook has decided. Somebody may have answered in the same moment: then that is recorded, and stands.
fn take_back<D: Decides>(
    port: &mut dyn AskPort,
    raise: &RaiseAsk,
    id: Option<String>,
    decision: D,
) -> Raced<D> {
    if !port.may_be_known() {
        return Raced::Hook(decision);
    }
    let winner = match port.decided_by_hook(raise, id.as_deref(), decision.decision(), false) {
        Ok(()) => return Raced::Hook(decision),
        // An answer was first.
        Err(Unavailable::Refused(problem)) if problem.code == Code::AlreadySettled => {
            problem.ask.map(|ask| *ask)
        }
        Err(_) => None,
    };
    // What became of it was not heard; somebody may have answered.
    let winner = winner.or_else(|| port.look(id.as_deref()?).ok());
    if let Some(ask) = winner.filter(is_decided) {
        return Raced::Ask(Box::new(ask));
    }
    later(port, raise, id, decision.decision());
    Raced::Hook(decision)
}

/// A daemon that cannot be told now hears of it when it is there again; the agent does not wait for that.
fn later(port: &dyn AskPort, raise: &RaiseAsk, id: Option<String>, decision: Decision) {
    let Some(mut port) = port.again() else { return };
    let raise = raise.clone();
    let tell = move || {
        let id = id.as_deref();
        until_taken(&mut *port, &raise, |port| port.decided_by_hook(&raise, id, decision, true))
    };
    // Without a thread it hears of it by the end of the connection, and the ask waits for its grace.
    let named = std::thread::Builder::new().name("hook's decision".to_owned());
    let _ = named.stack_size(512 * 1024).spawn(tell);
}

/// Somebody or a policy allowed or denied it, and that is for the agent: an allow that was voided is not.
fn is_decided(ask: &Ask) -> bool {
    ask.state == AskState::Settled
        && ask.delivery != Delivery::Voided
        && ask.outcome.as_ref().is_some_and(|outcome| {
            outcome.outcome != OutcomeKind::Withdrawn && outcome.verdict != Verdict::None
        })
}
