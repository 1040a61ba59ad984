//! Raising an ask, or coming back to one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ask::{
    Ask, AtDeadline, Attendance, Choice, ChoiceKind, Class, Decision, Lineage, Place, RequesterKind, Subagent,
};
use crate::command::{Observe, Raise, Reply, Seen, Voice};
use crate::event::{Change, Event, LateAnswer, Note};
use crate::id::{AskId, SessionKey};
use crate::outcome::{Cause, Outcome, OutcomeKind, Source};
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::time::Now;

use super::delivery::cancel;
use super::observe::Teller;
use super::remembered::Call;
use super::timeout::record;
use super::{AskState, Handled, Late, Link, State};

/// Longest id, name or key that is taken from outside, in bytes.
const LONGEST_NAME: usize = 1024;
/// Longest text for people that stays with a session or a lineage, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;
const MOST_OPTIONS: usize = 64;

impl State {
    pub(super) fn raise(&self, raise: &Raise, now: Now) -> Handled {
        if let Err(wrong) = check(raise) {
            return Handled::refused(Refusal::Malformed(wrong));
        }
        let digest = raise.action.digest();
        // Another process of the agent may have left one behind under the same key.
        let before: Vec<_> = self.asks_by_key(raise.token, &raise.key, digest).collect();
        let own = before.iter().copied().find(|(id, ask)| {
            let restarted = restarted(ask.ask.requester.instance.as_ref(), raise.instance.as_ref());
            ask.can_be_come_back_to() && !restarted || self.comes_back_to_let_go(*id, ask, raise, now)
        });
        if let Some((id, ask)) = own {
            return reattach(id, ask, raise, now);
        }
        let mut changes = match self.room_for(raise, now) {
            Ok(changes) => changes,
            Err(limit) => return Handled::refused(Refusal::CapReached(limit)),
        };
        let seen = observed(raise);
        match self.room_to_bring(&seen, now) {
            Ok(ended) => changes.extend(ended),
            Err(limit) => return Handled::refused(Refusal::CapReached(limit)),
        };
        if let Some(old) = raise.supersedes
            && let Some(ask) = self.asks.get(&old)
            && ask.ask.requester.token == raise.token
        {
            changes.extend(cancel(old, ask, Cause::Superseded, None, now));
        }
        let info = self.announce(&seen, Teller::Asks(raise.token), now, &mut changes);
        let root = info.root;
        let thread = self.thread_of_call(raise);
        let subagent =
            raise.subagent.as_ref().or(thread.as_ref()).map(|s| self.complete_subagent(&raise.session, s));
        let attendance =
            raise.attendance.unwrap_or_else(|| self.attendance_of(&raise.session, subagent.as_ref()));
        let options = if raise.options.is_empty() { yes_or_no() } else { raise.options.clone() };
        let call = raise
            .call
            .clone()
            // A requester that was lost and asks again is about the call that it was about.
            .or_else(|| before.iter().find_map(|(_, ask)| ask.call()).map(str::to_owned))
            .or_else(|| self.find_call(raise, subagent.as_ref().map(|s| s.work_id.as_str()), digest));
        let settings = self.settings_of_ask(raise, &root);
        let policy = Self::resolve_policy(&settings, raise, attendance, &options);
        let ask = Ask {
            id: raise.id,
            handle: self.next_handle(raise.id),
            key: raise.key.clone(),
            digest,
            action: raise.action.clone(),
            class: raise.class,
            attendance,
            lineage: Lineage {
                session: raise.session.clone(),
                root: root.clone(),
                parent: info.parent,
                subagent,
                job: raise.job.clone(),
                call,
                turn: raise.turn.clone(),
                place: raise.place.clone(),
            },
            options,
            policy,
            requester: crate::ask::Requester {
                kind: raise.kind,
                token: raise.token,
                instance: raise.instance.clone(),
                owner: raise.owner.clone(),
                grace_ms: raise.grace_ms,
                own_prompt: raise.own_prompt.clone(),
            },
            asked_at: now,
            gives_up_ms: raise.gives_up_ms,
            extra: raise.extra.clone(),
        };
        let fate = self.fate_at_birth(raise, &ask, &root, &settings, now);
        let id = ask.id;
        changes.push(record(id, now, Event::Asked { ask: Arc::new(ask) }));
        changes.push(Change::Note(Note::Attached { ask: id, link: raise.link }));
        changes.extend(fate);
        Handled { changes, reply: Ok(Reply::Raised(id)) }
    }

    /// What settles or hands back an ask the moment it is made.
    fn fate_at_birth(
        &self,
        raise: &Raise,
        ask: &Ask,
        root: &SessionKey,
        settings: &Settings,
        now: Now,
    ) -> Vec<Change> {
        let hand_back = |at: &str, why: &str| {
            vec![record(ask.id, now, Event::HandedBack { at: at.to_owned(), why: why.to_owned() })]
        };
        let own = raise.own_prompt.as_ref();
        if raise.needs_own_prompt {
            let at = own.map_or("agent", |o| o.at.as_str());
            return hand_back(at, "it needs the person's own interaction there");
        }
        if settings.skip
            && ask.class == Class::Tool
            && let Some(choice) = crate::ask::plain(&ask.options, Decision::Allow)
        {
            let option = Some(choice.id.clone());
            let outcome = by_policy(OutcomeKind::Allowed, Cause::Skip, Source::Policy, option, now);
            return vec![record(ask.id, now, Event::Settled { outcome })];
        }
        if let Some((from, answer)) = self.late_answer_for(ask, raise.supersedes, now) {
            return vec![
                record(ask.id, now, Event::Settled { outcome: by_late_answer(ask, from, &answer, now) }),
                record(from, now, Event::LateUsed { by: ask.id }),
            ];
        }
        let without = || self.without_surface(ask, root, now).map(|event| vec![record(ask.id, now, event)]);
        if self.is_unreachable(root) && !self.awaited.is_on_at(now) {
            return without().unwrap_or_default();
        }
        let queued = ask.class == Class::Tool && ask.attendance == Attendance::Background;
        if queued && self.queue_is_full(root, raise.owner.as_ref(), settings.queue_cap) {
            return match ask.policy.at_deadline {
                AtDeadline::HandBack => {
                    hand_back(own.map_or("agent", |o| o.at.as_str()), "the queue is full")
                }
                AtDeadline::Answer(answer) => {
                    let option = crate::ask::plain(&ask.options, answer).map(|c| c.id.clone());
                    let mut outcome = by_policy(answer.into(), Cause::Overflow, Source::Timed, option, now);
                    outcome.stop = answer == Decision::Deny && ask.policy.deny_stops;
                    vec![record(ask.id, now, Event::Settled { outcome })]
                }
            };
        }
        without().unwrap_or_default()
    }

    /// The one kept answer that the same call, asking again, may use; none when it is not exactly one.
    fn late_answer_for(&self, ask: &Ask, supersedes: Option<AskId>, now: Now) -> Option<(AskId, LateAnswer)> {
        let Settings { late_answer_ms, .. } = self.settings;
        let mut found = None;
        for id in self.late.iter().filter(|id| Some(**id) != supersedes) {
            let Some(old) = self.asks.get(id) else { continue };
            let Some(answer) = old.kept_answer() else { continue };
            let was = &old.ask;
            let same = was.lineage.session == ask.lineage.session
                && was.lineage.work_id() == ask.lineage.work_id()
                && was.digest == ask.digest
                && was.class == ask.class;
            // A new user prompt came between.
            let same_turn = match (&was.lineage.turn, &ask.lineage.turn) {
                (Some(a), Some(b)) => a == b,
                (None, _) | (_, None) => true,
            };
            if !same || !same_turn || old.elapsed(answer.lost_at, now) >= late_answer_ms {
                continue;
            }
            // What its requester was there to hear may have served its call although nobody said so; then it serves no
            // other call, unless the agent was started anew since.
            let may_have_served = old.reached && !matches!(old.late, Late::Recorded(_));
            if may_have_served && !is_started_anew(was, ask) && is_other_call(was, ask) {
                continue;
            }
            if answer.decision == Decision::Allow
                && crate::ask::plain(&ask.options, Decision::Allow).is_none()
            {
                continue;
            }
            if found.replace((*id, answer)).is_some() {
                return None;
            }
        }
        found
    }

    fn attendance_of(&self, session: &SessionKey, subagent: Option<&Subagent>) -> Attendance {
        let background = subagent
            .and_then(|s| self.sessions.get(session)?.subagents.get(&s.work_id))
            .is_some_and(|c| c.background);
        if background { Attendance::Background } else { Attendance::Foreground }
    }

    /// What is known of a child fills what its requester did not say.
    fn complete_subagent(&self, session: &SessionKey, given: &Subagent) -> Subagent {
        let known =
            self.sessions.get(session).and_then(|s| s.subagents.get(&given.work_id)).map(|c| &c.subagent);
        let or = |mine: &Option<String>, theirs: Option<&Option<String>>| {
            mine.clone().or_else(|| theirs.cloned().flatten())
        };
        Subagent {
            work_id: given.work_id.clone(),
            name: or(&given.name, known.map(|k| &k.name)),
            kind: or(&given.kind, known.map(|k| &k.kind)),
            depth: given.depth.or_else(|| known.and_then(|k| k.depth)),
            parent: or(&given.parent, known.map(|k| &k.parent)),
        }
    }

    /// The subagent whose call this is, for a requester that knows the call and not the thread.
    fn thread_of_call(&self, raise: &Raise) -> Option<Subagent> {
        let call = self.session(&raise.session)?.seen.call(raise.call.as_deref()?)?;
        let work_id = call.subagent.clone()?;
        Some(Subagent { work_id, name: None, kind: None, depth: None, parent: None })
    }

    /// The started call that this ask is about: same thread, same content, not ended, not another open ask's. Two
    /// candidates are none: an ambiguous match settles nothing.
    fn find_call(&self, raise: &Raise, work_id: Option<&str>, digest: crate::Digest) -> Option<String> {
        let session = self.sessions.get(&raise.session)?;
        // What another process announced in the session's name is that one's call.
        let same = |info: &Call| {
            info.digest == digest
                && info.subagent.as_deref() == work_id
                && (info.side.is_none() || info.side == raise.instance)
        };
        // Most asks come before their call has started: then the other asks need not be looked at.
        session.seen.calls().find(|(_, info)| same(info))?;
        if session.seen.is_unsure(work_id, digest) {
            return None;
        }
        let taken: BTreeSet<&str> =
            session.asks.iter().filter_map(|id| self.asks.get(id)).filter_map(AskState::call).collect();
        let mut matching =
            session.seen.calls().filter(|(call, info)| same(info) && !taken.contains(call.as_str()));
        match (matching.next(), matching.next()) {
            (Some((call, _)), None) => Some(call.clone()),
            _ => None,
        }
    }
}

/// The requester is known to be another process than the one that asked.
pub(super) fn restarted(asked: Option<&crate::Instance>, comes: Option<&crate::Instance>) -> bool {
    asked.zip(comes).is_some_and(|(asked, comes)| asked != comes)
}

/// The agent that asked is gone, and another process goes on with its session. Each run of a script is a process of its
/// own, which says nothing of what the one before did.
fn is_started_anew(was: &Ask, is: &Ask) -> bool {
    let script = was.requester.kind == RequesterKind::Script || is.requester.kind == RequesterKind::Script;
    !script && restarted(was.requester.instance.as_ref(), is.requester.instance.as_ref())
}

/// They are about different calls of the agent, or nobody can tell. A requester's own key names one call; the same key
/// from another requester is another one's.
fn is_other_call(was: &Ask, is: &Ask) -> bool {
    let (then, now) = (&was.requester, &is.requester);
    if then.kind != RequesterKind::Hook && then.token == now.token && was.key == is.key {
        return false;
    }
    match (&was.lineage.call, &is.lineage.call) {
        (Some(was), Some(is)) => was != is,
        _ => true,
    }
}

/// A requester of the same key and content gets the ask that it already has.
fn reattach(id: AskId, ask: &AskState, raise: &Raise, now: Now) -> Handled {
    let mut changes = Vec::new();
    if ask.is_open() && matches!(ask.link, Link::Detached { .. }) {
        changes.push(record(id, now, Event::Reattached));
    }
    changes.push(Change::Note(Note::Attached { ask: id, link: raise.link }));
    Handled { changes, reply: Ok(Reply::Reattached(id)) }
}

fn observed(raise: &Raise) -> Observe {
    Observe {
        by: Voice::All,
        owner: raise.owner.clone(),
        session: raise.session.clone(),
        parent: raise.parent.clone(),
        title: raise.title.clone(),
        cwd: raise.action.cwd.clone(),
        // A process that asks through a forwarding directory is not the one that the directory's session runs in.
        instance: raise.instance.clone().filter(|_| raise.kind != RequesterKind::Spool),
        place: raise.place.clone(),
        seen: Seen::SessionStarted,
    }
}

fn yes_or_no() -> Vec<Choice> {
    let choice = |id: &str, label: &str, kind| Choice {
        id: id.to_owned(),
        label: label.to_owned(),
        kind,
        grants: None,
        payload: None,
    };
    vec![
        choice("allow_once", "Allow once", ChoiceKind::AllowOnce),
        choice("reject_once", "Deny", ChoiceKind::RejectOnce),
    ]
}

pub(super) fn by_policy(
    kind: OutcomeKind,
    cause: Cause,
    source: Source,
    option: Option<String>,
    now: Now,
) -> Outcome {
    Outcome {
        kind,
        cause,
        source: Some(source),
        surface: None,
        by: None,
        option,
        message: None,
        stop: false,
        at: now,
        after_ms: 0,
        late_of: None,
    }
}

fn by_late_answer(ask: &Ask, from: AskId, answer: &LateAnswer, now: Now) -> Outcome {
    Outcome {
        kind: answer.decision.into(),
        cause: Cause::Person,
        source: Some(answer.source),
        surface: Some(answer.surface.clone()),
        by: answer.by.clone(),
        option: crate::ask::plain(&ask.options, answer.decision).map(|c| c.id.clone()),
        message: answer.message.clone(),
        stop: answer.stop,
        at: now,
        after_ms: 0,
        late_of: Some(from),
    }
}

fn check(raise: &Raise) -> Result<(), String> {
    name("key", &raise.key)?;
    name("action.tool", &raise.action.tool)?;
    session_key(&raise.session)?;
    if let Some(root) = &raise.root {
        session_key(root)?;
    }
    if let Some(parent) = &raise.parent {
        session_key(parent)?;
        if *parent == raise.session {
            return Err("parent is the session itself".to_owned());
        }
    }
    if let Some(child) = &raise.subagent {
        name("subagent.work_id", &child.work_id)?;
        texts([("subagent.name", &child.name), ("subagent.kind", &child.kind)])?;
    }
    texts([("job", &raise.job), ("turn", &raise.turn), ("tool_call", &raise.call)])?;
    around(&raise.title, &raise.action.cwd, raise.place.as_ref())?;
    if raise.own_prompt.as_ref().is_some_and(|own| own.at.len() > LONGEST_NAME) {
        return Err(format!("own_prompt.where is longer than {LONGEST_NAME} bytes"));
    }
    if raise.options.len() > MOST_OPTIONS {
        return Err(format!("more than {MOST_OPTIONS} options"));
    }
    let ids: BTreeSet<_> = raise.options.iter().map(|o| o.id.as_str()).collect();
    if ids.len() != raise.options.len() || ids.contains("") {
        return Err("option ids must be unique and not empty".to_owned());
    }
    match raise.deadline_ms {
        Some(0) => Err("deadline_secs must be above 0".to_owned()),
        Some(_) if raise.attendance != Some(Attendance::Background) => {
            Err("deadline_secs needs attendance \"background\"".to_owned())
        }
        _ => Ok(()),
    }
}

pub(super) fn name(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        Err(format!("{what} is empty"))
    } else if text.len() > LONGEST_NAME {
        Err(format!("{what} is longer than {LONGEST_NAME} bytes"))
    } else {
        Ok(())
    }
}

/// Optional texts, each with the name of its field.
pub(super) fn texts<'a>(
    fields: impl IntoIterator<Item = (&'static str, &'a Option<String>)>,
) -> Result<(), String> {
    match fields.into_iter().find(|(_, text)| text.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT)) {
        Some((field, _)) => Err(format!("{field} is longer than {LONGEST_TEXT} bytes")),
        None => Ok(()),
    }
}

/// What is remembered of a session.
pub(super) fn around(
    title: &Option<String>,
    cwd: &Option<String>,
    place: Option<&Place>,
) -> Result<(), String> {
    texts([("session_title", title), ("cwd", cwd)])?;
    place.map_or(Ok(()), |place| texts([("place.tty", &place.tty), ("place.tmux_pane", &place.tmux_pane)]))
}

pub(super) fn session_key(key: &SessionKey) -> Result<(), String> {
    if key.agent.is_empty() || key.agent.len() > LONGEST_NAME || key.agent.contains('/') {
        return Err(format!("agent must be a name without '/', of at most {LONGEST_NAME} bytes"));
    }
    if key.session.is_empty() || key.session.len() > LONGEST_NAME {
        return Err(format!("session must have 1 to {LONGEST_NAME} bytes"));
    }
    Ok(())
}
