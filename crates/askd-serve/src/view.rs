//! From the core's state to the shape that surfaces and scripts see.

use std::collections::BTreeMap;
use std::sync::Mutex;

use askd_core::ask::{AtDeadline, Attendance, Class};
use askd_core::state::{AskState, Late, Link};
use askd_core::{AskId, Decision, Delivery, Now, Outcome, OutcomeKind, SessionKey, Stamp, Verdict, ask};
use askd_wire as wire;
use serde_json::value::RawValue;

use crate::clock::rfc3339;
use crate::masked::{self, Sight};

/// An ask as it was at one moment, with the root that is known for it now.
#[derive(Debug, Clone)]
pub struct Shot {
    pub ask: AskState,
    pub root: SessionKey,
}

impl Shot {
    pub fn view(&self) -> wire::Ask {
        self.view_for(Sight::Full)
    }

    /// The same for a reader that is somewhere else.
    pub fn view_for(&self, sight: Sight) -> wire::Ask {
        let mut view = self.shape(sight);
        if sight == Sight::Masked {
            masked::cover(&mut view);
        }
        view
    }

    fn shape(&self, sight: Sight) -> wire::Ask {
        let Self { ask: state, root } = self;
        let ask = &state.ask;
        let silence = self.silence();
        let open = state.is_open() && !state.is_handed_back();
        wire::Ask {
            id: ask.id.to_string(),
            handle: ask.handle.to_string(),
            state: if state.is_open() { wire::AskState::Open } else { wire::AskState::Settled },
            digest: ask.digest.to_string(),
            class: match ask.class {
                Class::Tool => wire::Class::Tool,
                Class::Safety => wire::Class::Safety,
            },
            attendance: match ask.attendance {
                Attendance::Foreground => wire::Attendance::Foreground,
                Attendance::Background => wire::Attendance::Background,
            },
            action: action(&ask.action),
            display: display(ask, sight),
            lineage: lineage(state, root),
            options: ask.options.iter().map(choice).collect(),
            asked_at: rfc3339(ask.asked_at.wall_ms),
            deadline: silence.map(|(since, ms, _)| rfc3339(since.wall_plus(ms))),
            default: silence.and_then(|(.., answer)| answer).map(decision_view),
            gives_up_at: ask.gives_up_ms.filter(|_| open).map(|ms| rfc3339(ask.asked_at.wall_plus(ms))),
            requester: requester(state),
            outcome: state.outcome.as_ref().map(|o| outcome(o, state)),
            delivery: delivery(state.delivery),
            late: late(state),
        }
    }
}

impl Shot {
    /// The view as JSON.
    pub fn json(&self, sight: Sight) -> String {
        // What was JSON when it came in is JSON on its way out.
        let text = self.to_json(sight).ok().and_then(|json| String::from_utf8(json).ok());
        text.unwrap_or_else(|| "null".to_owned())
    }

    /// The view as JSON.
    ///
    /// # Errors
    /// When the view cannot be written as JSON.
    pub fn to_json(&self, sight: Sight) -> serde_json::Result<Vec<u8>> {
        // Most of it is the input, as it came and as it is shown; room for that is made once.
        let input = self.ask.ask.action.input.as_ref().map_or(0, String::len);
        let mut json = Vec::with_capacity(1536 + 2 * input);
        serde_json::to_writer(&mut json, &self.view_for(sight))?;
        Ok(json)
    }

    /// When and with what the ask settles by itself, if nobody answers: the timed answer, or a remote silence.
    fn silence(&self) -> Option<(Stamp, u64, Option<Decision>)> {
        let policy = &self.ask.ask.policy;
        let timed = policy.deadline_ms.map(|ms| {
            let answer = match policy.at_deadline {
                AtDeadline::Answer(decision) => Some(decision),
                AtDeadline::HandBack => None,
            };
            (self.ask.ask.asked_at, ms, answer)
        });
        timed.or_else(|| {
            let silence = policy.remote_silence?;
            Some((self.ask.remote_shown_at?, silence.after_ms, Some(silence.answer)))
        })
    }

    /// Milliseconds until then.
    pub fn countdown_ms(&self, now: Now) -> Option<u64> {
        self.silence().map(|(since, ms, _)| ms.saturating_sub(since.elapsed(now)))
    }
}

fn action(action: &ask::Action) -> wire::Action {
    wire::Action {
        tool: action.tool.clone(),
        kind: action.kind.clone(),
        title: action.title.clone(),
        // It was JSON when it came in; anything else was refused there.
        input: action.input.clone().and_then(|raw| RawValue::from_string(raw).ok()),
        cwd: action.cwd.clone(),
    }
}

/// Displays that were made, so that an ask that is seen by many is parsed once.
static DISPLAYS: Mutex<BTreeMap<(AskId, bool), Vec<wire::DisplayField>>> = Mutex::new(BTreeMap::new());
/// Most displays that are kept, and the largest input of one.
const MOST_DISPLAYS: usize = 1024;
const LARGEST_KEPT: usize = 16 * 1024;

fn display(ask: &ask::Ask, sight: Sight) -> Vec<wire::DisplayField> {
    let key = (ask.id, sight == Sight::Masked);
    let keep = ask.action.input.as_ref().is_none_or(|input| input.len() <= LARGEST_KEPT);
    if keep && let Some(known) = DISPLAYS.lock().ok().and_then(|kept| kept.get(&key).cloned()) {
        return known;
    }
    let mut made = make_display(&ask.action, sight);
    made.extend(reason(ask, sight));
    if keep && let Ok(mut kept) = DISPLAYS.lock() {
        if kept.len() >= MOST_DISPLAYS {
            kept.pop_first();
        }
        kept.insert(key, made.clone());
    }
    made
}

/// Why the agent asks, in its own words, where its adapter tells.
fn reason(ask: &ask::Ask, sight: Sight) -> Option<wire::DisplayField> {
    let mut text = ask.extra.get("reason")?.as_str()?.to_owned();
    if sight == Sight::Masked {
        masked::cover_text(&mut text);
    }
    let askd_text::SafeLines { lines, marked } = askd_text::safe_lines(&text);
    Some(wire::DisplayField { label: "reason".to_owned(), lines, marked, complete: true })
}

fn make_display(action: &ask::Action, sight: Sight) -> Vec<wire::DisplayField> {
    let make = match sight {
        Sight::Full => askd_text::display,
        Sight::Masked => askd_text::display_masked,
    };
    make(&text_action(action))
        .into_iter()
        .map(|f| wire::DisplayField {
            label: f.label,
            lines: f.lines,
            marked: f.marked,
            complete: f.complete,
        })
        .collect()
}

pub fn text_action(action: &ask::Action) -> askd_text::Action<'_> {
    askd_text::Action {
        tool: &action.tool,
        kind: action.kind.as_deref(),
        title: action.title.as_deref(),
        input: action.input.as_deref(),
        cwd: action.cwd.as_deref(),
    }
}

fn lineage(state: &AskState, root: &SessionKey) -> wire::Lineage {
    let from = &state.ask.lineage;
    let instance = state.ask.requester.instance.as_ref();
    wire::Lineage {
        agent: from.session.agent.clone(),
        instance: instance.map(ToString::to_string),
        session: from.session.session.clone(),
        root: root.session.clone(),
        parent: from.parent.as_ref().map(|p| p.session.clone()),
        subagent: from.subagent.as_ref().map(subagent),
        job: from.job.clone(),
        tool_call: from.call.clone(),
        host: instance.map(|i| i.host.clone()),
        place: from.place.as_ref().map(place),
    }
}

pub fn subagent(child: &ask::Subagent) -> wire::Subagent {
    wire::Subagent {
        name: child.name.clone(),
        kind: child.kind.clone(),
        work_id: child.work_id.clone(),
        depth: child.depth,
    }
}

pub fn place(place: &ask::Place) -> wire::Place {
    wire::Place { tty: place.tty.clone(), tmux_pane: place.tmux_pane.clone() }
}

fn choice(choice: &ask::Choice) -> wire::Choice {
    wire::Choice {
        id: choice.id.clone(),
        label: choice.label.clone(),
        kind: match choice.kind {
            ask::ChoiceKind::AllowOnce => wire::ChoiceKind::AllowOnce,
            ask::ChoiceKind::AllowAlways => wire::ChoiceKind::AllowAlways,
            ask::ChoiceKind::RejectOnce => wire::ChoiceKind::RejectOnce,
            ask::ChoiceKind::RejectAlways => wire::ChoiceKind::RejectAlways,
        },
        grants: choice.grants.clone(),
        payload: choice.payload.clone(),
    }
}

fn requester(state: &AskState) -> wire::Requester {
    let kind = match state.ask.requester.kind {
        ask::RequesterKind::Hook => "hook",
        ask::RequesterKind::Proxy => "proxy",
        ask::RequesterKind::Library => "library",
        ask::RequesterKind::Script => "script",
        ask::RequesterKind::Spool => "spool",
    };
    let (link, since, until, at) = match &state.link {
        Link::Attached(_) => {
            let own = state.ask.requester.own_prompt.as_ref();
            ("attached", None, None, own.map(|own| own.at.clone()))
        }
        Link::Detached { since, grace_ms } => {
            let kept = state.is_open() || state.delivery == Delivery::Pending;
            let until = kept.then(|| rfc3339(since.wall_plus(*grace_ms)));
            ("detached", Some(rfc3339(since.wall_ms)), until, None)
        }
        Link::HandedBack { at, .. } => ("handed_back", None, None, Some(at.clone())),
    };
    wire::Requester { link: link.to_owned(), since, until, at, kind: Some(kind.to_owned()) }
}

fn outcome(outcome: &Outcome, state: &AskState) -> wire::Outcome {
    let mut text = outcome.text();
    if let Late::Recorded(kept) = &state.late {
        let decision = if kept.decision == Decision::Allow { "allow" } else { "deny" };
        text.push_str(&format!(
            "; a late {decision} is kept until {} for the same call asking again",
            rfc3339(kept.lost_at.wall_plus(kept.for_ms))
        ));
    }
    wire::Outcome {
        outcome: match outcome.kind {
            OutcomeKind::Allowed => wire::OutcomeKind::Allowed,
            OutcomeKind::Denied => wire::OutcomeKind::Denied,
            OutcomeKind::Withdrawn => wire::OutcomeKind::Withdrawn,
        },
        cause: outcome.cause.name().to_owned(),
        source: outcome.source.map(|s| s.name().to_owned()),
        surface: outcome.surface.clone(),
        by: outcome.by.clone(),
        option: outcome.option.clone(),
        message: outcome.message.clone(),
        stop: outcome.stop,
        settled_at: rfc3339(outcome.at.wall_ms),
        // What was void or overtaken before it was handed over is not told to the agent any more.
        verdict: match state.verdict() {
            Verdict::Allow => wire::Verdict::Allow,
            Verdict::Deny => wire::Verdict::Deny,
            Verdict::None => wire::Verdict::None,
        },
        reason_for_model: outcome.reason_for_model().filter(|_| state.verdict() == Verdict::Deny),
        text: askd_text::safe(&text).text,
        extra: serde_json::Map::new(),
    }
}

fn late(state: &AskState) -> Option<wire::LateAnswer> {
    let Late::Recorded(kept) = &state.late else { return None };
    Some(wire::LateAnswer {
        decision: decision_view(kept.decision),
        until: rfc3339(kept.lost_at.wall_plus(kept.for_ms)),
        by: kept.by.clone(),
        surface: Some(kept.surface.clone()),
    })
}

pub fn decision_view(decision: Decision) -> wire::Decision {
    match decision {
        Decision::Allow => wire::Decision::Allow,
        Decision::Deny => wire::Decision::Deny,
    }
}

fn delivery(delivery: Delivery) -> wire::Delivery {
    match delivery {
        Delivery::None => wire::Delivery::None,
        Delivery::Pending => wire::Delivery::Pending,
        Delivery::Handed => wire::Delivery::Handed,
        Delivery::Confirmed => wire::Delivery::Confirmed,
        Delivery::Refused => wire::Delivery::Refused,
        Delivery::Overtaken => wire::Delivery::Overtaken,
        Delivery::Voided => wire::Delivery::Voided,
        Delivery::Expired => wire::Delivery::Expired,
    }
}
