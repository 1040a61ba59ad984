//! Every committed entry, judged by what truly happened: nothing in the journal may be invented, doubled or untrue.

use askd_core::ask::{AtDeadline, Attendance, ChoiceKind, Class};
use askd_core::event::{Event, LateAnswer};
use askd_core::id::StreamId;
use askd_core::settings::Unreachable;
use askd_core::{Ask, AskId, Cause, Decision, Delivery, Outcome, OutcomeKind, Stamp, Verdict};
use askd_journal::{Position, Positioned};

use crate::agent::{Call, Phase};
use crate::ledger::{File, Kept};
use crate::plan::AgentKind;
use crate::story::tell;
use crate::world::World;

impl World {
    /// Reads what was committed since the last look, judges it and takes it in; returns how much it was.
    pub(crate) fn absorb(&mut self, d: usize) -> usize {
        let before = self.ledger.last;
        let entries = self.ledger.feed(before);
        self.fresh_ends = entries
            .iter()
            .filter(|e| {
                matches!(
                    e.entry.event,
                    Event::Settled { .. } | Event::Withdrawn { .. } | Event::HandedBack { .. }
                )
            })
            .count();
        for entry in &entries {
            let ask = match entry.stream {
                StreamId::Ask(id) => Some(id),
                _ => None,
            };
            tell!(self, ask, "journal {}: {}", entry.position, shown(&entry.entry.event));
            self.count_event(&entry.entry.event);
            self.judge(d, entry);
            self.ledger.fold(entry, self.clock.now);
        }
        for entry in &entries {
            if let (StreamId::Ask(id), Event::Asked { .. }) = (&entry.stream, &entry.entry.event) {
                self.judge_birth(*id, before, entry.entry.at);
            }
        }
        entries.len()
    }

    fn judge(&mut self, d: usize, entry: &Positioned) {
        if entry.position != self.ledger.last + 1 {
            self.broken(&[], format!("position {} follows {}", entry.position, self.ledger.last));
        }
        let known = self.ledger.versions.get(&entry.stream).copied().unwrap_or(0);
        if entry.version != known + 1 {
            self.broken(&[], format!("{} went from version {known} to {}", entry.stream, entry.version));
        }
        if self.ledger.ids.contains_key(&entry.entry.id) {
            self.broken(&[], format!("the entry {} is there twice", entry.entry.id));
        }
        if let (StreamId::Session(root), Event::OverridesSet { overrides, .. }) =
            (&entry.stream, &entry.entry.event)
            && let Err(why) = self.judge_overrides(root, overrides)
        {
            self.broken(&[], format!("overrides of {root}: {why}"));
        }
        let StreamId::Ask(id) = entry.stream else { return };
        if let Err(why) = self.judge_ask(d, id, entry) {
            self.broken(&[id], format!("{}: {why}", entry.entry.event.name()));
        }
    }

    fn judge_ask(&self, d: usize, id: AskId, entry: &Positioned) -> Result<(), String> {
        let event = &entry.entry.event;
        if let Event::Asked { ask } = event {
            return self.judge_asked(d, id, ask);
        }
        let file = self.ledger.files.get(&id).ok_or("the ask was never asked")?;
        match event {
            Event::Settled { outcome } => {
                no_outcome(file)?;
                self.judge_settled(d, file, outcome, entry.entry.at)
            }
            Event::Withdrawn { outcome } => {
                no_outcome(file)?;
                self.judge_withdrawn(d, file, outcome, entry.entry.at)
            }
            Event::Shown { .. } | Event::SurfaceFailed { .. } | Event::Detached | Event::Reattached => {
                no_outcome(file)
            }
            Event::HandedBack { .. } => no_outcome(file),
            Event::LateRecorded { answer } => self.judge_late_recorded(file, answer),
            Event::LateUsed { by } => self.judge_late_used(file, *by),
            Event::LateRevoked { .. } => {
                let gone = file.outcome.as_ref().is_some_and(|o| o.cause == Cause::RequesterGone);
                let may = gone && file.late == Kept::Nothing;
                must(may || file.kept().is_some(), "nothing was kept, nor could be")
            }
            Event::Handed => {
                must(self.sent.handed.contains(&id), "nobody said so")?;
                must(
                    matches!(file.delivery, Delivery::Pending | Delivery::Expired),
                    "nothing was to be handed",
                )
            }
            Event::Confirmed => {
                must(is_decided(file), "there is no decision to confirm")?;
                must(file.delivery != Delivery::Voided, "it was voided before")?;
                let seen = self.call_was(file, went_on) || self.sent.decided.get(&id) == Some(&true);
                must(seen || self.sent.confirmed.contains(&id), "nobody said so")
            }
            Event::Overtaken { .. } => {
                if let Some(allowed) = self.sent.decided.get(&id) {
                    let other = file.outcome.as_ref().map(|o| o.kind) != Some(kind_of(*allowed));
                    let void = matches!(file.delivery, Delivery::Voided | Delivery::Refused);
                    return must(other || void || !is_decided(file), "it is what its own side decided");
                }
                must(is_decided(file), "there is no decision to overtake")?;
                let denied = file.outcome.as_ref().is_some_and(|o| o.kind == OutcomeKind::Denied);
                let seen = self.call_was(file, |c| if denied { went_on(c) } else { c.own == Some(false) });
                must(seen, "the agent did nothing of the kind")
            }
            Event::DeliveryRefused { .. } => must(is_decided(file), "there is no decision to refuse"),
            Event::Voided { .. } => {
                let allow = file.outcome.as_ref().is_some_and(|o| o.verdict() == Verdict::Allow);
                let lost = file.delivery == Delivery::Expired && file.late == Kept::Nothing;
                must(allow && (lost || file.delivery == Delivery::Pending), "there is no undelivered allow")
            }
            Event::DeliveryExpired { .. } => {
                must(file.delivery == Delivery::Pending, "nothing was to be handed")
            }
            Event::SelfAnswerRefused { .. } => must(
                self.said.iter().any(|s| s.answer.ask == id && s.answer.refused.is_some()),
                "nobody tried",
            ),
            _ => Err("it does not belong to an ask".to_owned()),
        }
    }

    fn judge_asked(&self, d: usize, id: AskId, ask: &Ask) -> Result<(), String> {
        must(!self.ledger.files.contains_key(&id), "it was asked before")?;
        must(!self.ledger.handles.contains(&ask.handle), "its handle was given before")?;
        let r = *self.raised.get(&id).ok_or("nobody asked")?;
        let raise = &self.requesters[r].raise;
        let same = raise.key == ask.key
            && raise.token == ask.requester.token
            && raise.action == ask.action
            && raise.session == ask.lineage.session
            && raise.action.digest() == ask.digest;
        must(same, "it is not what was asked")?;
        self.judge_policy(d, raise, ask)?;
        let call = &self.calls[self.requesters[r].call];
        // A request that was read when its call was over already may be taken for another one like it.
        let late = call.phase != Phase::Asking;
        // Nor is it known for ever which call an earlier ask of the same requester was about.
        let before = self.ledger.by_key.get(&(ask.requester.token, ask.key.clone())).into_iter().flatten();
        let first = before.map(|old| &self.ledger.files[old]).all(|old| {
            let fresh = |at: u64| self.clock.now - at < self.plan.settings.late_answer_ms;
            old.ask.asked_at.boot == ask.asked_at.boot
                && old.lost.is_some_and(|(at, _)| fresh(at))
                && matches!(old.late, Kept::Nothing | Kept::Recorded(_))
        });
        // Nor whether this one took the place of another that was never announced.
        let alike = |c: &Call| c.agent == call.agent && c.digest == call.digest && c.thread == call.thread;
        let known = self.calls.iter().filter(|c| alike(c)).all(|c| c.announced.is_some());
        let sure =
            known && !late && first && call.announced == Some(self.daemons[0].life) || raise.call.is_some();
        if sure && self.plan.daemons == 1 && ask.lineage.call.as_ref().is_some_and(|named| *named != call.id)
        {
            return Err(format!("it was taken for call {:?}, but is {}", ask.lineage.call, call.id));
        }
        // With two writers the order within a batch is not the order in which things came.
        if self.plan.daemons == 1 { self.judge_key(ask) } else { Ok(()) }
    }

    /// Nobody is asked again while the requester could still have come back to what it has.
    fn judge_key(&self, ask: &Ask) -> Result<(), String> {
        let key = (ask.requester.token, ask.key.clone());
        for old in self.ledger.by_key.get(&key).into_iter().flatten().filter(|old| **old != ask.id) {
            let file = &self.ledger.files[old];
            let same_process = file.ask.requester.instance == ask.requester.instance;
            if file.ask.digest == ask.digest && same_process && file.is_reattachable() {
                return Err(format!("it is asked again although {old} has an answer or waits for one"));
            }
        }
        Ok(())
    }

    fn judge_settled(&self, d: usize, file: &File, outcome: &Outcome, at: Stamp) -> Result<(), String> {
        must(outcome.kind != OutcomeKind::Withdrawn, "a withdrawal is no decision")?;
        must(!outcome.cause.is_withdrawal(), "the cause is none of a decision")?;
        let ask = &file.ask;
        match outcome.cause {
            Cause::Person if outcome.late_of.is_some() => Ok(()),
            Cause::Person => {
                must(file.handed_back.is_none(), "only the agent's own prompt could answer it")?;
                self.judge_person(file, outcome)
            }
            Cause::Timed => {
                must(file.handed_back.is_none(), "only the agent's own prompt could answer it")?;
                let deadline = ask.policy.deadline_ms.ok_or("it has no deadline")?;
                let decision = match ask.policy.at_deadline {
                    AtDeadline::Answer(decision) => decision,
                    AtDeadline::HandBack => return Err("its deadline hands back".to_owned()),
                };
                must(OutcomeKind::from(decision) == outcome.kind, "it is not the configured answer")?;
                must(self.is_due(file, deadline, at, d), "the deadline is not over")?;
                must(!self.waits_for_remotes(d), "a remote surface may still have an answer from before")?;
                let waits = self.daemons[d].waiters.get(&ask.id).is_some_and(|w| !w.is_empty());
                // Who comes or leaves with the same batch was there when the deadline passed.
                let present = waits || self.daemons[d].moving;
                must(
                    decision == Decision::Deny || present,
                    "its requester is not there to be allowed anything",
                )
            }
            Cause::Unreachable => {
                must(outcome.kind == OutcomeKind::Denied, "nobody allowed it")?;
                let settings = &self.plan.settings;
                let strict = settings.unreachable == Unreachable::WhenNoneAttached && settings.remotes == 0;
                let root = &ask.lineage.root;
                let reachable =
                    |known: &[askd_core::event::Scope]| known.iter().any(|scope| scope.covers(root));
                let (before, after) = &self.daemons[d].reach;
                let both = reachable(before) && reachable(after);
                must(settings.no_surfaces || (strict && !both), "a surface was there")
            }
            Cause::Agent => {
                let allowed = outcome.kind == OutcomeKind::Allowed;
                let seen = self.call_was(file, |c| if allowed { went_on(c) } else { c.own == Some(false) });
                let told = self.sent.decided.get(&ask.id) == Some(&allowed);
                must(seen || told, "the agent's own side did not decide so")
            }
            Cause::Skip => {
                must(self.may_skip(d, ask), "nobody skips permissions")?;
                must(
                    ask.class == Class::Tool && outcome.kind == OutcomeKind::Allowed,
                    "only a tool is allowed so",
                )
            }
            Cause::Overflow => {
                let cap = self.plan.settings.queue_cap as usize;
                let queued = ask.class == Class::Tool && ask.attendance == Attendance::Background;
                let root = self.ledger.line(&ask.lineage.session).pop();
                let before = self.ledger.files.values().filter(|f| {
                    f.position < file.position
                        && f.outcome.is_none()
                        && f.handed_back.is_none()
                        && f.ask.class == Class::Tool
                        && f.ask.attendance == Attendance::Background
                        && f.ask.requester.owner == ask.requester.owner
                        && self.ledger.line(&f.ask.lineage.session).last() == root.as_ref()
                });
                // What was settled in the same batch was still in the queue when this came.
                // Several daemons count what each of them knows.
                let full = before.count() + self.fresh_ends > cap || self.plan.daemons > 1;
                must(cap > 0 && queued && full, "the queue had room")?;
                must(
                    ask.policy.at_deadline == AtDeadline::Answer(decision_of(outcome)),
                    "it is not the default",
                )
            }
            Cause::RemoteTimeout => {
                let silence = ask.policy.remote_silence.ok_or("a silence means nothing")?;
                must(silence.answer == decision_of(outcome), "it is not the configured answer")?;
                must(
                    ask.class == Class::Tool || silence.answer == Decision::Deny,
                    "a silence allows no safety ask",
                )?;
                let shown = file.shown_far.ok_or("no remote surface showed it")?;
                let same_boot = ask.asked_at.boot == at.boot;
                must(
                    !same_boot || self.clock.now - shown >= silence.after_ms,
                    "the silence was not that long",
                )?;
                must(!self.waits_for_remotes(d), "a remote surface may still have an answer from before")
            }
            other => Err(format!("nothing of this world causes {}", other.name())),
        }
    }

    /// Some surface really sent exactly this.
    fn judge_person(&self, file: &File, outcome: &Outcome) -> Result<(), String> {
        let ask = &file.ask;
        let chosen = outcome.option.as_ref().and_then(|id| ask.options.iter().find(|o| o.id == *id));
        let chosen = chosen.ok_or("it names no option that was offered")?;
        let sent = self.said.iter().any(|said| {
            let answer = &said.answer;
            // What comes twice may be refused and taken; what a crash brings back was handled once.
            !(self.reviving && said.lost)
                && answer.ask == ask.id
                && answer.digest == ask.digest
                && answer.refused.is_none()
                && OutcomeKind::from(answer.decision) == outcome.kind
                && Some(&answer.surface) == outcome.surface.as_ref()
                && answer.by == outcome.by
                && answer.message == outcome.message
                && match &answer.option {
                    Some(option) => *option == chosen.id,
                    None => chosen.kind != ChoiceKind::AllowAlways,
                }
        });
        must(sent, "nobody sent this answer")?;
        must(OutcomeKind::from(chosen.kind.decision()) == outcome.kind, "the option says something else")
    }

    fn judge_withdrawn(&self, d: usize, file: &File, outcome: &Outcome, at: Stamp) -> Result<(), String> {
        must(outcome.kind == OutcomeKind::Withdrawn, "a decision is no withdrawal")?;
        let ask = &file.ask;
        let line = self.ledger.line(&ask.lineage.session);
        match outcome.cause {
            Cause::Cancelled => {
                let turn = line.iter().any(|key| self.sent.turn_ends.contains(key));
                let said = self.sent.withdrawals.contains(&ask.id) || self.sent.dismissals.contains(&ask.id);
                must(turn || said, "nobody cancelled it")
            }
            Cause::SessionEnded => {
                let session = line.iter().any(|key| self.sent.session_ends.contains(key));
                let mut children = self.sent.subagent_ends.iter().map(|(key, _)| key);
                must(session || children.any(|key| *key == ask.lineage.session), "nobody ended it")
            }
            Cause::Superseded => must(self.sent.superseded.contains(&ask.id), "nobody replaced it"),
            Cause::RequesterGone => {
                if self.plan.daemons > 1 {
                    return Ok(());
                }
                let waits = self.daemons[d].waiters.get(&ask.id).into_iter().flatten().any(|conn| {
                    let held = self.daemons[d].links.get(&conn.link);
                    held.is_some_and(|link| self.requesters[link.requester].holds(*conn))
                });
                let let_go = self.daemons[d].is_stopping() && !ask.requester.kind.outlasts_a_stop();
                must(!waits || let_go, "its requester is there and waits")
            }
            Cause::RequesterLimit => {
                let limit = ask.gives_up_ms.ok_or("it has no limit")?;
                must(self.is_due(file, limit, at, d), "the limit is not over")
            }
            other => Err(format!("nothing of this world causes {}", other.name())),
        }
    }

    /// A span that began when it was asked is over. Across boots the wall clock counts, as it was when this process
    /// read the ask.
    fn is_due(&self, file: &File, span_ms: u64, at: Stamp, d: usize) -> bool {
        if file.ask.asked_at.boot == at.boot {
            return self.clock.now - file.asked_at >= span_ms;
        }
        let Some(start) = self.daemons[d].started.filter(|start| start.boot == at.boot) else { return true };
        let over = start.wall_ms.saturating_sub(file.ask.asked_at.wall_ms);
        let left = span_ms.saturating_sub(u64::try_from(over).unwrap_or(0));
        at.boot_ms.saturating_sub(start.boot_ms) >= left
    }

    /// Right after a start or a wake overdue defaults wait for what people sent before.
    fn waits_for_remotes(&self, d: usize) -> bool {
        let daemon = &self.daemons[d];
        daemon.hold_until.is_some_and(|until| self.clock.now < until && !daemon.polling)
    }

    fn judge_late_recorded(&self, file: &File, answer: &LateAnswer) -> Result<(), String> {
        let gone = file.outcome.as_ref().is_some_and(|o| o.cause == Cause::RequesterGone);
        must(gone, "its requester was not lost")?;
        must(file.late == Kept::Nothing, "there is one already")?;
        let (lost, stamp) = file.lost.ok_or("it was not lost")?;
        if stamp.boot == self.clock.stamp().boot {
            must(self.clock.now - lost < self.plan.settings.late_answer_ms, "it is too late for that")?;
        }
        let sent = self.said.iter().any(|said| {
            said.answer.ask == file.ask.id
                && said.answer.digest == file.ask.digest
                && said.answer.refused.is_none()
                && said.answer.decision == answer.decision
                && said.answer.surface == answer.surface
        });
        must(sent, "nobody sent this answer")
    }

    fn judge_late_used(&self, file: &File, by: AskId) -> Result<(), String> {
        must(file.kept().is_some(), "nothing was kept")?;
        must(by != file.ask.id, "it cannot use its own")
    }

    /// After the whole batch: a new ask used the one late answer that fits, and no other.
    fn judge_birth(&mut self, id: AskId, before: Position, at: Stamp) {
        let Some(file) = self.ledger.files.get(&id) else { return };
        if let Err(why) = self.judge_key(&file.ask)
            && self.plan.daemons > 1
            && file.is_reattachable()
        {
            return self.broken(&[id], why);
        }
        let Some(file) = self.ledger.files.get(&id) else { return };
        let used = file.outcome.as_ref().and_then(|o| o.late_of);
        if let Some(from) = used
            && let Err(why) = self.judge_use(file, from, before, at)
        {
            self.broken(&[id, from], format!("the answer of {from} settled {id}: {why}"));
        }
    }

    fn judge_use(&self, file: &File, from: AskId, before: Position, at: Stamp) -> Result<(), String> {
        let old = self.ledger.files.get(&from).ok_or("it is unknown")?;
        let outcome = file.outcome.as_ref().ok_or("it is open")?;
        must(old.late == Kept::Used(file.ask.id), "the journal does not say so there")?;
        must(old.used == Some(outcome.kind), "it says something else")?;
        must(file.delivery == Delivery::Pending || file.outcome.is_some(), "it was not settled")?;
        let (was, is) = (&old.ask, &file.ask);
        must(was.lineage.session == is.lineage.session, "it is another session's")?;
        must(was.lineage.work_id() == is.lineage.work_id(), "it is another thread's")?;
        must(was.digest == is.digest && was.class == is.class, "it was given to something else")?;
        if let (Some(a), Some(b)) = (&was.lineage.turn, &is.lineage.turn) {
            must(a == b, "a new user prompt came between")?;
        }
        let (lost, stamp) = old.lost.ok_or("its requester was not lost")?;
        if stamp.boot == at.boot {
            must(self.clock.now - lost < self.plan.settings.late_answer_ms, "it is too old")?;
        }
        let allowed = outcome.kind == OutcomeKind::Allowed;
        must(!(allowed && self.has_served(from, file.ask.id)), "it had served its own call by then")?;
        let chosen = outcome.option.as_ref().and_then(|id| is.options.iter().find(|o| o.id == *id));
        must(chosen.is_none_or(|o| o.kind != ChoiceKind::AllowAlways), "nobody said always")?;
        let over = self.ledger.ends.iter().find(|end| {
            end.position > old.lost_position && end.position <= before && end.reached.contains(&from)
        });
        // A cancel that only the other daemon knows of reaches this one when they share what they know.
        match over.filter(|_| self.plan.daemons == 1) {
            Some(end) => Err(format!("a cancel or an end came between, at {}", end.position)),
            None => Ok(()),
        }
    }

    /// What was allowed there has run, and this one asks for something else. An agent that was started anew may have run
    /// it before without anybody knowing.
    fn has_served(&self, from: AskId, to: AskId) -> bool {
        let call = |id: &AskId| self.raised.get(id).map(|r| self.requesters[*r].call);
        let (Some(was), Some(is)) = (call(&from), call(&to)) else { return false };
        let (then, now) = (&self.calls[was], &self.calls[is]);
        let anew = then.life != now.life && self.agents[then.agent].kind != AgentKind::Script;
        then.id != now.id && !anew && then.ran_by == Some(from)
    }

    /// The call that the ask was taken for, under that id, was seen like this.
    fn call_was(&self, file: &File, like: impl Fn(&Call) -> bool) -> bool {
        let Some(named) = &file.ask.lineage.call else { return false };
        self.calls
            .iter()
            .any(|c| c.id == *named && self.agents[c.agent].key == file.ask.lineage.session && like(c))
    }

    fn count_event(&mut self, event: &Event) {
        self.counts.add(event.name());
        if let Event::Asked { ask } = event
            && let Some(r) = self.raised.get(&ask.id)
            && self.is_overridden(&self.requesters[*r].raise, ask)
        {
            self.counts.add("asked under an override");
        }
        if let Event::Settled { outcome } | Event::Withdrawn { outcome } = event {
            self.counts.add(match (outcome.kind, outcome.cause) {
                (OutcomeKind::Allowed, Cause::Person) if outcome.late_of.is_some() => {
                    "allowed by a late answer"
                }
                (OutcomeKind::Denied, Cause::Person) if outcome.late_of.is_some() => {
                    "denied by a late answer"
                }
                (OutcomeKind::Allowed, Cause::Person) => "allowed by a person",
                (OutcomeKind::Denied, Cause::Person) => "denied by a person",
                (OutcomeKind::Allowed, Cause::Timed) => "allowed by the deadline",
                (OutcomeKind::Denied, Cause::Timed) => "denied by the deadline",
                (OutcomeKind::Allowed, Cause::Agent) => "allowed by the own prompt",
                (OutcomeKind::Denied, Cause::Agent) => "denied by the own prompt",
                (_, Cause::Overflow) => "settled by the queue cap",
                (_, Cause::Skip) => "allowed as skipped",
                (_, Cause::RemoteTimeout) => "settled by remote silence",
                (_, Cause::Unreachable) => "denied as unreachable",
                (_, Cause::Cancelled) => "withdrawn: cancelled",
                (_, Cause::SessionEnded) => "withdrawn: session ended",
                (_, Cause::Superseded) => "withdrawn: superseded",
                (_, Cause::RequesterGone) => "withdrawn: requester gone",
                (_, Cause::RequesterLimit) => "withdrawn: requester limit",
                _ => "another outcome",
            });
        }
    }
}

fn must(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

fn no_outcome(file: &File) -> Result<(), String> {
    match &file.outcome {
        None => Ok(()),
        Some(outcome) => Err(format!("it has an outcome already: {}", outcome.text())),
    }
}

fn decision_of(outcome: &Outcome) -> Decision {
    if outcome.kind == OutcomeKind::Allowed { Decision::Allow } else { Decision::Deny }
}

fn kind_of(allowed: bool) -> OutcomeKind {
    if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied }
}

fn is_decided(file: &File) -> bool {
    file.outcome.as_ref().is_some_and(|o| o.verdict() != Verdict::None)
}

/// The agent went on with the call without askd, or because of it.
fn went_on(call: &Call) -> bool {
    matches!(call.phase, Phase::Running | Phase::Ran) || call.own == Some(true)
}

fn shown(event: &Event) -> String {
    match event {
        Event::Asked { ask } => format!(
            "asked {} by {:?} {} call {:?} turn {:?} {:?} deadline {:?} {:?}",
            ask.handle,
            ask.requester.kind,
            ask.lineage.session,
            ask.lineage.call,
            ask.lineage.turn,
            ask.attendance,
            ask.policy.deadline_ms,
            ask.policy.at_deadline
        ),
        Event::Settled { outcome } | Event::Withdrawn { outcome } => {
            format!("{}: {} (late of {:?})", event.name(), outcome.text(), outcome.late_of)
        }
        other => format!("{other:?}"),
    }
}
